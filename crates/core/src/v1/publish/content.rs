//! The payload and attributes of a job in JSON.

use serde::Serialize;
use serde::de::MapAccess;

use crate::limits::ConfigurableLimits;
use crate::v1::input::OwnFields;
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::values::{Base64Bytes, ContentType, JobAttributes, JobPayload, JsonText};

/// The payload and attributes of a job of a batch or schedule.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobContent {
    /// The payload, if it is JSON. Excludes `payload_base64`.
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub payload: Option<JsonText>,
    /// The payload as base64. Excludes `payload`.
    pub payload_base64: Option<Base64Bytes>,
    /// By default `application/json` for `payload`, else `application/octet-stream`.
    pub content_type: Option<ContentType>,
    /// Names and values that travel with the job.
    #[serde(skip_serializing_if = "JobAttributes::is_empty")]
    pub attributes: JobAttributes,
}

impl JobContent {
    /// A payload and attributes.
    pub fn new(payload: JobPayload, attributes: JobAttributes) -> Self {
        let content_type = payload.content_type.clone();
        let (payload, payload_base64) = payload.into_fields();
        Self {
            payload,
            payload_base64,
            content_type: Some(content_type),
            attributes,
        }
    }

    /// The payload and attributes.
    ///
    /// # Errors
    /// As for [`JobPayload::from_fields`]. None if the request has been checked.
    pub fn into_parts(self) -> Result<(JobPayload, JobAttributes), InvalidRequest> {
        let payload =
            JobPayload::from_fields(self.payload, self.payload_base64, self.content_type)?;
        Ok((payload, self.attributes))
    }

    /// Checks the payload, and returns its length in bytes.
    pub(crate) fn check_payload(&self) -> Result<usize, InvalidRequest> {
        JobPayload::check_fields(
            self.payload.as_ref(),
            self.payload_base64.as_ref(),
            self.content_type.as_ref(),
        )
    }

    pub(super) fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        if self.check_payload()? > limits.payload_bytes {
            let detail = format!("the payload has more than {} bytes", limits.payload_bytes);
            return Err(InvalidRequest::new(ProblemCode::PayloadTooLarge, detail).at("payload"));
        }
        let attributes = self.attributes.check();
        attributes.map_err(|invalid| InvalidRequest::from(invalid).at("attributes"))
    }
}

impl OwnFields for JobContent {
    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        match field {
            // `null` is a payload, too.
            "payload" => self.payload = Some(map.next_value()?),
            "payload_base64" => self.payload_base64 = map.next_value()?,
            "content_type" => self.content_type = map.next_value()?,
            "attributes" => self.attributes = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
