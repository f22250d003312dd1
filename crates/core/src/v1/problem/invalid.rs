//! Why a value or a request is invalid.

use std::fmt;

use super::code::ProblemCode;

/// Why a single value is invalid. It does not know the field that the value is in.
///
/// Serde errors carry it as text that begins with the code, so that [`InvalidRequest::from_serde`] finds the code
/// again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct InvalidValue {
    pub code: ProblemCode,
    /// A sentence that says which values are allowed.
    pub detail: String,
}

impl InvalidValue {
    /// A value that is invalid for the reason that the sentence gives.
    pub fn new(detail: impl Into<String>) -> Self {
        Self {
            code: ProblemCode::InvalidParameter,
            detail: detail.into(),
        }
    }

    /// The same with another code.
    #[must_use]
    pub const fn with_code(mut self, code: ProblemCode) -> Self {
        self.code = code;
        self
    }
}

/// Why a request is rejected before it changes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRequest {
    pub code: ProblemCode,
    /// The invalid parameter, header or field, if the cause is a single one.
    pub field: Option<String>,
    /// A sentence with the cause and the remedy.
    pub detail: String,
}

impl InvalidRequest {
    /// A request that is invalid for the reason that the sentence gives.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            field: None,
            detail: detail.into(),
        }
    }

    /// An invalid value of a field.
    pub fn of_field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::InvalidParameter, detail).at(field)
    }

    /// Two fields that exclude each other.
    pub fn of_both(field: &str, other: &str) -> Self {
        Self::of_field(
            field,
            format!("{field} and {other} exclude each other; send one of them"),
        )
    }

    /// Names the field. For fields other than `run_at` an instant out of range is an invalid parameter.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        let field = field.into();
        if self.code == ProblemCode::RunAtOutOfRange && !field.ends_with("run_at") {
            self.code = ProblemCode::InvalidParameter;
        }
        self.field = Some(field);
        self
    }

    /// Adds the field or item that contains this one: `delay` in `jobs[3]` becomes `jobs[3].delay`.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.field = Some(match self.field {
            Some(inner) => format!("{outer}.{inner}"),
            None => outer.to_owned(),
        });
        self
    }

    /// Finds the code in the text of a serde error; `otherwise` if the text does not begin with one.
    pub fn from_serde(text: &str, otherwise: ProblemCode) -> Self {
        let known = text.split_once(": ").and_then(|(code, detail)| {
            let code = ProblemCode::from_name(code)?;
            Some(Self::new(code, detail))
        });
        known.unwrap_or_else(|| Self::new(otherwise, text))
    }
}

impl From<InvalidValue> for InvalidRequest {
    fn from(invalid: InvalidValue) -> Self {
        Self::new(invalid.code, invalid.detail)
    }
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(out, "{}: {field}: {}", self.code, self.detail),
            None => write!(out, "{}: {}", self.code, self.detail),
        }
    }
}

impl std::error::Error for InvalidRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_value_survives_as_text() {
        let invalid = InvalidValue::new("a: b").with_code(ProblemCode::InvalidName);
        let found = InvalidRequest::from_serde(&invalid.to_string(), ProblemCode::InvalidBody);
        assert_eq!(found, invalid.into());
        let other = InvalidRequest::from_serde("unknown field: x", ProblemCode::InvalidBody);
        assert_eq!(other.code, ProblemCode::InvalidBody);
        assert_eq!(other.detail, "unknown field: x");
    }

    #[test]
    fn only_run_at_is_out_of_range() {
        let invalid = InvalidRequest::new(ProblemCode::RunAtOutOfRange, "too late");
        let run_at = invalid.clone().at("jobs[1].run_at");
        assert_eq!(run_at.code, ProblemCode::RunAtOutOfRange);
        assert_eq!(invalid.at("expires_at").code, ProblemCode::InvalidParameter);
    }

    #[test]
    fn fields_are_nested() {
        let invalid = InvalidRequest::of_field("delay", "no").inside("jobs[3]");
        assert_eq!(invalid.to_string(), "invalid_parameter: jobs[3].delay: no");
        let whole = InvalidRequest::new(ProblemCode::InvalidBody, "no").inside("jobs[3]");
        assert_eq!(whole.field.as_deref(), Some("jobs[3]"));
    }
}
