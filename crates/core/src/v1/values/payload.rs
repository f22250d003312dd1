//! Payloads in JSON: a JSON value, or base64.

use super::base64_bytes::Base64Bytes;
use super::content_type::ContentType;
use super::json_text::JsonText;
use super::portable_json::check_portable;
use crate::v1::problem::{InvalidRequest, InvalidValue, ProblemCode};

/// A payload and its content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPayload {
    pub bytes: Vec<u8>,
    pub content_type: ContentType,
}

impl JobPayload {
    /// Checks the fields `payload`, `payload_base64` and `content_type` of a JSON object, and returns the number of
    /// bytes.
    ///
    /// # Errors
    /// Both payloads or none, a content type that is not JSON for a JSON value, or base64 of other bytes than JSON with
    /// a content type of JSON.
    pub fn check_fields(
        payload: Option<&JsonText>,
        payload_base64: Option<&Base64Bytes>,
        content_type: Option<&ContentType>,
    ) -> Result<usize, InvalidRequest> {
        match (payload, payload_base64) {
            (Some(json), None) => {
                if content_type.is_some_and(|content_type| !content_type.is_json()) {
                    let detail =
                        "a payload of this content type is not JSON; send it in payload_base64";
                    return Err(InvalidRequest::of_field("content_type", detail));
                }
                // A field of a body is valid JSON, as the body is.
                let json_type = content_type.unwrap_or(&ContentType::JSON);
                let checked = check_portable(json.as_str().as_bytes());
                checked.map_err(|reason| {
                    InvalidRequest::from(not_json(json_type, &reason)).at("payload")
                })?;
                Ok(json.as_str().len())
            }
            (None, Some(bytes)) => {
                let checked =
                    content_type.map(|content_type| check_json_payload(content_type, &bytes.0));
                let checked = checked.unwrap_or(Ok(()));
                checked.map_err(|invalid| InvalidRequest::from(invalid).at("payload_base64"))?;
                Ok(bytes.0.len())
            }
            (Some(_), Some(_)) => Err(InvalidRequest::of_both("payload", "payload_base64")),
            (None, None) => {
                let detail = "a job needs payload (any JSON value) or payload_base64";
                Err(InvalidRequest::of_field("payload", detail))
            }
        }
    }

    /// Takes the payload from these fields. The default of the content type is `application/json` for a JSON value,
    /// else `application/octet-stream`.
    ///
    /// # Errors
    /// As for [`Self::check_fields`].
    pub fn from_fields(
        payload: Option<JsonText>,
        payload_base64: Option<Base64Bytes>,
        content_type: Option<ContentType>,
    ) -> Result<Self, InvalidRequest> {
        Self::check_fields(
            payload.as_ref(),
            payload_base64.as_ref(),
            content_type.as_ref(),
        )?;
        let (bytes, default) = match payload {
            Some(json) => (json.into(), ContentType::JSON),
            None => (payload_base64.unwrap_or_default().0, ContentType::BYTES),
        };
        Ok(Self {
            bytes,
            content_type: content_type.unwrap_or(default),
        })
    }

    /// The fields `payload` and `payload_base64` of an answer, one of them: JSON if the content type says so and the
    /// bytes are JSON.
    #[must_use]
    pub fn into_fields(self) -> (Option<JsonText>, Option<Base64Bytes>) {
        if !self.content_type.is_json() {
            return (None, Some(Base64Bytes(self.bytes)));
        }
        let text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => return (None, Some(Base64Bytes(error.into_bytes()))),
        };
        match JsonText::try_from(text.trim_ascii().to_owned()) {
            Ok(json) => (Some(json), None),
            Err(_) => (None, Some(Base64Bytes(text.into_bytes()))),
        }
    }
}

/// Checks a payload whose content type may say that it is JSON.
///
/// # Errors
/// It says so, and the payload is not valid JSON: `payload_not_json`.
pub fn check_json_payload(content_type: &ContentType, bytes: &[u8]) -> Result<(), InvalidValue> {
    if !content_type.is_json() {
        return Ok(());
    }
    let checked = serde_json::from_slice::<&serde_json::value::RawValue>(bytes);
    checked.map_err(|error| not_json(content_type, &error.to_string()))?;
    check_portable(bytes).map_err(|reason| not_json(content_type, &reason))
}

fn not_json(content_type: &ContentType, reason: &str) -> InvalidValue {
    let detail =
        format!("the content type is {content_type}, but the payload is not valid JSON: {reason}");
    InvalidValue::new(detail).with_code(ProblemCode::PayloadNotJson)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> JsonText {
        text.to_owned().try_into().unwrap()
    }

    fn content_type(text: &str) -> ContentType {
        text.parse().unwrap()
    }

    #[test]
    fn a_payload_is_json_or_base64() {
        let of_json = JobPayload::from_fields(Some(json("{\"a\": 1}")), None, None).unwrap();
        assert_eq!(of_json.bytes, b"{\"a\": 1}");
        assert_eq!(of_json.content_type, ContentType::JSON);
        let bytes = Base64Bytes(vec![0, 255]);
        let of_bytes = JobPayload::from_fields(None, Some(bytes), None).unwrap();
        assert_eq!(
            (of_bytes.bytes, of_bytes.content_type),
            (vec![0, 255], ContentType::BYTES)
        );
        let null = JobPayload::from_fields(Some(json("null")), None, None).unwrap();
        assert_eq!(null.bytes, b"null");
    }

    #[test]
    fn contradictions_are_rejected() {
        let (value, bytes) = (|| json("1"), || Base64Bytes(b"{".to_vec()));
        let field = |result: Result<JobPayload, InvalidRequest>| result.unwrap_err().field.unwrap();
        assert_eq!(
            field(JobPayload::from_fields(Some(value()), Some(bytes()), None)),
            "payload"
        );
        assert_eq!(field(JobPayload::from_fields(None, None, None)), "payload");
        let text = content_type("text/plain");
        assert_eq!(
            field(JobPayload::from_fields(Some(value()), None, Some(text))),
            "content_type"
        );
        let error =
            JobPayload::from_fields(None, Some(bytes()), Some(ContentType::JSON)).unwrap_err();
        assert_eq!(error.code, ProblemCode::PayloadNotJson);
        assert_eq!(error.field.as_deref(), Some("payload_base64"));
    }

    #[test]
    fn answers_have_json_only_for_what_is_json() {
        let fields = |bytes: &[u8], kind: &str| {
            let content_type = content_type(kind);
            let (json, base64) = JobPayload {
                bytes: bytes.to_vec(),
                content_type,
            }
            .into_fields();
            assert!(json.is_some() != base64.is_some());
            (
                json.map(|json| json.as_str().to_owned()),
                base64.map(|base64| base64.0),
            )
        };
        assert_eq!(
            fields(b" [1, 2]\n", "application/json"),
            (Some("[1, 2]".to_owned()), None)
        );
        assert_eq!(fields(b"[1]", "text/plain"), (None, Some(b"[1]".to_vec())));
        assert_eq!(
            fields(b"[1", "application/json"),
            (None, Some(b"[1".to_vec()))
        );
        assert_eq!(
            fields(b"\xff", "application/json"),
            (None, Some(b"\xff".to_vec()))
        );
        // Stored with an earlier release.
        assert_eq!(
            fields(b"\"\\ud800\"", "application/json"),
            (None, Some(b"\"\\ud800\"".to_vec()))
        );
    }

    #[test]
    fn payloads_of_json_are_checked() {
        assert!(check_json_payload(&ContentType::JSON, b" {} ").is_ok());
        assert!(check_json_payload(&ContentType::BYTES, b"{").is_ok());
        let deep = ["[".repeat(65), "]".repeat(65)].concat();
        for bytes in [
            &b"{"[..],
            b"",
            b"\"\xff\"",
            b"1 2",
            b"\"\\ud800\"",
            deep.as_bytes(),
        ] {
            let error = check_json_payload(&ContentType::JSON, bytes).unwrap_err();
            assert_eq!(error.code, ProblemCode::PayloadNotJson);
        }
    }
}
