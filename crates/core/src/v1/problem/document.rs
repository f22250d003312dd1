//! The body of every answer other than a success: `application/problem+json` of RFC 9457.

use serde::{Deserialize, Serialize};

use super::code::{Applied, ProblemCode};
use super::invalid::InvalidRequest;

/// A problem document of RFC 9457.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A URI that identifies the code: `urn:tidegate:problem:CODE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A summary that is the same for all problems with this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The machine-readable reason.
    pub code: ProblemCode,
    /// The cause in this request, and the remedy.
    pub detail: String,
    /// The id of the request, as in the header `X-Request-ID` and the logs.
    pub instance: String,
    /// The parameter, header or field that is invalid, such as `jobs[3].delay`.
    pub field: Option<String>,
    /// The id of the job that the problem is about.
    pub job: Option<String>,
    /// Whether the change was made. Absent for requests that change nothing.
    pub applied: Option<Applied>,
}

impl Problem {
    /// The content type of a problem document.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    /// A problem with the status, title and `applied` of its code, and no field or job.
    pub fn new(
        code: ProblemCode,
        detail: impl Into<String>,
        request_id: impl Into<String>,
    ) -> Self {
        let info = code.info();
        Self {
            kind: format!("urn:tidegate:problem:{}", info.name),
            title: info.title.to_owned(),
            status: info.status,
            code,
            detail: detail.into(),
            instance: request_id.into(),
            field: None,
            job: None,
            applied: Some(info.applied),
        }
    }

    /// The problem of an invalid request.
    pub fn of_invalid(invalid: InvalidRequest, request_id: impl Into<String>) -> Self {
        let problem = Self::new(invalid.code, invalid.detail, request_id);
        Self {
            field: invalid.field,
            ..problem
        }
    }

    /// Names the job that the problem is about.
    #[must_use]
    pub fn with_job(mut self, id: impl Into<String>) -> Self {
        self.job = Some(id.into());
        self
    }

    /// Says whether the change was made, where the code alone does not.
    #[must_use]
    pub const fn with_applied(mut self, applied: Option<Applied>) -> Self {
        self.applied = applied;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_has_what_its_code_says() {
        let problem = Problem::new(ProblemCode::NotDurable, "one replica is missing", "req-1")
            .with_job("01KAJ0000000000000000000AB");
        let expected = json!({
            "type": "urn:tidegate:problem:not_durable",
            "title": "Not durable",
            "status": 504,
            "code": "not_durable",
            "detail": "one replica is missing",
            "instance": "req-1",
            "job": "01KAJ0000000000000000000AB",
            "applied": "yes",
        });
        assert_eq!(serde_json::to_value(&problem).unwrap(), expected);
        assert_eq!(
            serde_json::from_value::<Problem>(expected).unwrap(),
            problem
        );
    }

    #[test]
    fn an_invalid_request_names_its_field_and_applies_nothing() {
        let invalid = InvalidRequest::new(ProblemCode::InvalidParameter, "too long").at("delay");
        let problem = Problem::of_invalid(invalid, "req-2");
        assert_eq!(problem.field.as_deref(), Some("delay"));
        assert_eq!(problem.applied, Some(Applied::No));
        assert_eq!((problem.status, problem.detail.as_str()), (400, "too long"));
        let read_only = problem.with_applied(None);
        let json = serde_json::to_value(read_only).unwrap();
        assert!(json.get("applied").is_none() && json.get("job").is_none());
    }

    #[test]
    fn members_that_a_client_does_not_know_are_ignored() {
        let mut json = serde_json::to_value(Problem::new(ProblemCode::KeyTaken, "", "")).unwrap();
        json["added_later"] = json!(1);
        assert!(serde_json::from_value::<Problem>(json).is_ok());
    }
}
