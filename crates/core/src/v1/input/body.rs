//! Bodies of JSON.

use serde::de::IgnoredAny;
use serde_path_to_error::Track;

use super::checked::CheckedRequest;
use super::object::object;
use crate::limits::ConfigurableLimits;
use crate::v1::problem::{InvalidRequest, ProblemCode};

/// Reads and checks the body of a request.
///
/// # Errors
/// `invalid_body` for text that is not JSON, unknown, missing and duplicate fields and wrong types; the code of the
/// value for an invalid value; each error of [`CheckedRequest::check`]. The field is named as in `jobs[3].delay`.
pub fn read_body<T: CheckedRequest>(
    body: &[u8],
    limits: &ConfigurableLimits,
) -> Result<T, InvalidRequest> {
    if body.trim_ascii().is_empty() {
        let detail = "the body is empty; send a JSON object";
        return Err(InvalidRequest::new(ProblemCode::InvalidBody, detail));
    }
    let request: T = match read_object(body) {
        Ok(request) => request,
        Err(_) => read_with_path(body)?,
    };
    request.check(limits)?;
    Ok(request)
}

fn read_object<T: CheckedRequest>(body: &[u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let request = object(&mut deserializer)?;
    deserializer.end()?;
    Ok(request)
}

/// Reads a body that is invalid again, to name the field: to keep track of it takes as long as all the rest.
fn read_with_path<T: CheckedRequest>(body: &[u8]) -> Result<T, InvalidRequest> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let request = object(tracked);
    let request = request.map_err(|error| invalid(body, &track.path().to_string(), &error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(request)
}

fn malformed(error: &serde_json::Error) -> InvalidRequest {
    let detail = format!("the body is not valid JSON: {error}");
    InvalidRequest::new(ProblemCode::InvalidBody, detail)
}

fn invalid(body: &[u8], path: &str, error: &serde_json::Error) -> InvalidRequest {
    let text = match error.is_data() {
        true => without_position(error),
        false if serde_json::from_slice::<IgnoredAny>(body).is_ok() => of_valid_json(error),
        false => return malformed(error),
    };
    let invalid = InvalidRequest::from_serde(&text, ProblemCode::InvalidBody);
    match path {
        "." => invalid,
        path => invalid.at(path),
    }
}

/// The text of an error that serde_json reports as malformed JSON, although the JSON is valid.
fn of_valid_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = if text.contains("number out of range") {
        "the number is beyond 1.8e308"
    } else if text.contains("hex escape") {
        "the text has half of a surrogate pair"
    } else {
        // One of several words is expected here.
        "invalid type: expected a string"
    };
    cause.to_owned()
}

/// The text of an error without the line and column, which the name of the field makes superfluous.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::QueueName;
    use crate::v1::values::{Base64Bytes, DurationMs, JsonText, Timestamp};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SampleBody {
        items: Vec<SampleItem>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SampleItem {
        delay: Option<DurationMs>,
        run_at: Option<Timestamp>,
        until: Option<Timestamp>,
        queue: Option<QueueName>,
        factor: Option<f64>,
        json: Option<JsonText>,
        bytes: Option<Base64Bytes>,
    }

    impl CheckedRequest for SampleBody {
        fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
            match self.items.as_slice() {
                [] => Err(InvalidRequest::of_field("items", "none")),
                _ => Ok(()),
            }
        }
    }

    fn read(body: &str) -> Result<SampleBody, InvalidRequest> {
        read_body(body.as_bytes(), &ConfigurableLimits::default())
    }

    #[test]
    fn values_are_read() {
        let body = r#"{"items":[{"delay":"5m","json":{"n":1.00},"bytes":"YQ=="}, {"run_at":1795264200000}]}"#;
        let read = read(body).unwrap();
        let [first, second] = read.items.as_slice() else {
            panic!("two items");
        };
        assert_eq!(first.delay.unwrap().as_ms(), 300_000);
        assert_eq!(first.json.as_ref().unwrap().as_str(), r#"{"n":1.00}"#);
        assert_eq!(first.bytes.as_ref().unwrap().0, b"a");
        assert_eq!(second.run_at.unwrap().as_ms(), 1_795_264_200_000);
        assert!(second.until.is_none() && second.queue.is_none() && second.factor.is_none());
    }

    #[test]
    fn errors_have_code_and_field() {
        for (body, expected) in [
            (
                r#"{"items":[{},{"delay":"-1s"}]}"#,
                "invalid_parameter: items[1].delay: \"-1s\" is not a duration",
            ),
            (
                r#"{"items":[{"run_at":"10000-01-01T00:00:00Z"}]}"#,
                "run_at_out_of_range: items[0].run_at: ",
            ),
            (
                r#"{"items":[{"until":"10000-01-01T00:00:00Z"}]}"#,
                "invalid_parameter: items[0].until: ",
            ),
            (
                r#"{"items":[{"queue":"a b"}]}"#,
                "invalid_name: items[0].queue: the name of a queue",
            ),
            (
                r#"{"items":[{"queue":7}]}"#,
                "invalid_body: items[0].queue: invalid type: integer `7`",
            ),
            (
                r#"{"items":[{"dealy":"5m"}]}"#,
                "invalid_body: items[0].dealy: unknown field `dealy`, expected one of",
            ),
            (
                r#"{"items":[{"delay":"1s","delay":"2s"}]}"#,
                "invalid_body: items[0]: duplicate field `delay`",
            ),
            (r#"{"items":[]}"#, "invalid_parameter: items: none"),
            ("{}", "invalid_body: missing field `items`"),
            (
                "[[]]",
                "invalid_body: invalid type: sequence, expected a JSON object",
            ),
            ("7", "invalid_body: invalid type"),
            ("", "invalid_body: the body is empty"),
            (
                "{\"items\":[",
                "invalid_body: the body is not valid JSON: EOF",
            ),
            (
                "{\"items\":[{}]} x",
                "invalid_body: the body is not valid JSON: trailing characters",
            ),
            ("\u{ff}", "invalid_body: the body is not valid JSON"),
            (
                r#"{"items":[{"queue":"\ud800"}]}"#,
                "invalid_body: items[0].queue: the text has half of a surrogate pair",
            ),
            (
                r#"{"items":[{"factor":1e400}]}"#,
                "invalid_body: items[0].factor: the number is beyond 1.8e308",
            ),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{body}: {error}");
        }
    }

    #[test]
    fn deep_json_is_read_as_a_payload_and_rejected_elsewhere() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let read_deep = read(&format!(r#"{{"items":[{{"json":{deep}}}]}}"#)).unwrap();
        assert_eq!(read_deep.items[0].json.as_ref().unwrap().as_str(), deep);
        let error = read(&format!(r#"{{"items":{deep}}}"#)).unwrap_err();
        assert_eq!(error.code, ProblemCode::InvalidBody);
    }
}
