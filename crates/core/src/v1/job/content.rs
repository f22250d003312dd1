//! The content of a job: payload, content type, key, group and attributes. Content type, key and group are stored as
//! attributes whose names begin with a colon, which clients cannot use.

use std::collections::BTreeMap;

use crate::v1::values::{ContentType, JobAttributes, JobGroup, JobKey, JobPayload};
use crate::{Attributes, CONTENT_TYPE_ATTRIBUTE, GROUP_ATTRIBUTE, Job, KEY_ATTRIBUTE};

/// The stored form of `application/json`: most jobs have it, and it would take 15 bytes more. It is no content type.
const JSON_TYPE: &str = "j";

/// The attributes that are stored for a job. The content type of bytes is left out.
pub fn stored_attributes(
    attributes: JobAttributes,
    content_type: &ContentType,
    key: Option<&JobKey>,
    group: Option<&JobGroup>,
) -> Attributes {
    let mut stored: Attributes = attributes.0.into_iter().collect();
    if *content_type != ContentType::BYTES {
        let text = match *content_type == ContentType::JSON {
            true => JSON_TYPE,
            false => content_type.as_str(),
        };
        stored.push((CONTENT_TYPE_ATTRIBUTE.to_owned(), text.to_owned()));
    }
    if let Some(key) = key {
        stored.push((KEY_ATTRIBUTE.to_owned(), key.to_string()));
    }
    if let Some(group) = group {
        stored.push((GROUP_ATTRIBUTE.to_owned(), group.to_string()));
    }
    stored
}

impl Job {
    pub fn key(&self) -> Option<JobKey> {
        self.attribute(KEY_ATTRIBUTE)?.parse().ok()
    }

    pub fn group(&self) -> Option<JobGroup> {
        self.attribute(GROUP_ATTRIBUTE)?.parse().ok()
    }

    /// The content type of the payload; bytes if the job was published on another wire.
    pub fn content_type(&self) -> ContentType {
        let Some(text) = self.attribute(CONTENT_TYPE_ATTRIBUTE) else {
            return ContentType::BYTES;
        };
        match text {
            JSON_TYPE => ContentType::JSON,
            text => text.parse().unwrap_or(ContentType::BYTES),
        }
    }

    /// The attributes that clients have given to the job.
    pub fn client_attributes(&self) -> JobAttributes {
        let attributes = self.attributes.iter();
        let given = attributes.filter(|(name, _)| !name.starts_with(':'));
        JobAttributes(given.cloned().collect::<BTreeMap<_, _>>())
    }

    /// The payload with its content type.
    pub fn payload(&self) -> JobPayload {
        JobPayload {
            bytes: self.body.to_vec(),
            content_type: self.content_type(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored_type(content_type: &str) -> Option<String> {
        let content_type = content_type.parse().unwrap();
        let stored = stored_attributes(JobAttributes::default(), &content_type, None, None);
        stored.into_iter().next().map(|(_, text)| text)
    }

    #[test]
    fn frequent_content_types_take_few_bytes() {
        assert_eq!(stored_type("application/octet-stream"), None);
        assert_eq!(stored_type("application/json").unwrap(), JSON_TYPE);
        assert_eq!(stored_type("text/plain").unwrap(), "text/plain");
        assert!(JSON_TYPE.parse::<ContentType>().is_err());
    }
}
