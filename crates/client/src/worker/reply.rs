//! The reply that a handler returns when the job is done.

use serde::Serialize;
use tidegate_core::v1::consume::AckItem;
use tidegate_core::v1::values::{Base64Bytes, ContentType, JsonText, LeaseText};

use super::fail::Fail;

/// The result of a job: nothing, JSON, or bytes. It is kept as long as the job is retained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobReply(ReplyBody);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum ReplyBody {
    #[default]
    None,
    Json(JsonText),
    Bytes(Vec<u8>, ContentType),
}

impl JobReply {
    /// A value as JSON. `()` and other values that are `null` in JSON are no result.
    ///
    /// # Errors
    /// The value cannot be written as JSON. The job is dead then: its work is done, and would be done again.
    pub fn json(value: &impl Serialize) -> Result<Self, Fail> {
        let failed = |error: &dyn std::fmt::Display| {
            Fail::dead(format!("failed to write the reply as JSON: {error}"))
        };
        let text = serde_json::to_string(value).map_err(|error| failed(&error))?;
        if text == "null" {
            return Ok(Self::default());
        }
        let json = JsonText::try_from(text).map_err(|error| failed(&error))?;
        Ok(Self(ReplyBody::Json(json)))
    }

    /// Bytes with a content type like `image/png`.
    ///
    /// # Errors
    /// The content type is not valid.
    pub fn bytes(bytes: impl Into<Vec<u8>>, content_type: &str) -> Result<Self, Fail> {
        let content_type = content_type.parse().map_err(Fail::dead)?;
        Ok(Self(ReplyBody::Bytes(bytes.into(), content_type)))
    }

    pub(super) fn into_item(self, lease: LeaseText) -> AckItem {
        let mut item = AckItem::from(lease);
        match self.0 {
            ReplyBody::None => {}
            ReplyBody::Json(json) => item.result = Some(json),
            ReplyBody::Bytes(bytes, content_type) => {
                item.result_base64 = Some(Base64Bytes(bytes));
                item.content_type = Some(content_type);
            }
        }
        item
    }
}

impl From<()> for JobReply {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Vec<u8>> for JobReply {
    /// Bytes of the type `application/octet-stream`.
    fn from(bytes: Vec<u8>) -> Self {
        Self(ReplyBody::Bytes(bytes, ContentType::BYTES))
    }
}
