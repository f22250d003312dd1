//! Commands, as they are read from the bodies of requests.

use std::time::Duration;

use tidegate_core::QueueName;
use tidegate_core::v1::values::JobKey;

use super::error::YouzanError;
use super::fields::Fields;
use super::topic::queue_of;

/// The bounds of the original, in seconds; it rejects a delay of 0.
const DELAY_S_MAX: u64 = (1 << 31) - 1;
const TTR_S_MAX: u64 = 86_400;
/// A longer wait is shortened, so any number is accepted.
const TIMEOUT_S_MAX: u64 = u32::MAX as u64;

/// The names of the length of a lease: the name of Youzan, and the name of `ouqiang/delay-queue`.
const TTR: [&str; 2] = ["TTR", "ttr"];

/// A command of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandName {
    Add,
    Pop,
    Finish,
    Delete,
    Get,
}

impl CommandName {
    /// The value of the label `command` in metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Pop => "pop",
            Self::Finish => "finish",
            Self::Delete => "delete",
            Self::Get => "get",
        }
    }

    /// Reads the field `command`.
    ///
    /// # Errors
    /// It is missing, or no command.
    pub(super) fn read(fields: &mut Fields) -> Result<Self, YouzanError> {
        match fields.required_text("command")?.as_str() {
            "add" => Ok(Self::Add),
            "pop" => Ok(Self::Pop),
            "finish" => Ok(Self::Finish),
            "delete" => Ok(Self::Delete),
            other => Err(YouzanError::invalid(format!(
                "unknown command {other:?}: send add, pop, finish or delete"
            ))),
        }
    }
}

/// A job to be added.
#[derive(Debug)]
pub(super) struct AddRequest {
    pub(super) topic: QueueName,
    pub(super) id: String,
    pub(super) delay: Duration,
    pub(super) ttr: Duration,
    pub(super) body: String,
}

/// A request for a job.
#[derive(Debug)]
pub(super) struct PopRequest {
    /// At least one.
    pub(super) topics: Vec<QueueName>,
    /// How long to wait; `None` = as long as possible.
    pub(super) patience: Option<Duration>,
}

/// A job that a client names.
#[derive(Debug)]
pub(super) struct NamedJob {
    pub(super) id: String,
    /// Its topic; `None` = the topic in the directory.
    pub(super) topic: Option<QueueName>,
}

impl AddRequest {
    /// # Errors
    /// A field is missing or invalid, or the body has more than `body_bytes_max` bytes.
    pub(super) fn read(mut fields: Fields, body_bytes_max: usize) -> Result<Self, YouzanError> {
        let topic = queue_of(&fields.required_text("topic")?)?;
        let id = id(&mut fields)?;
        let delay_s = fields.required_seconds(&["delay"], 0, DELAY_S_MAX)?;
        let ttr_s = fields.required_seconds(&TTR, 1, TTR_S_MAX)?;
        let body = fields.required_text("body")?;
        if body.len() > body_bytes_max {
            return Err(YouzanError::invalid(format!(
                "\"body\" has {} bytes; at most {body_bytes_max} are accepted",
                body.len()
            )));
        }
        Ok(Self {
            topic,
            id,
            delay: Duration::from_secs(delay_s),
            ttr: Duration::from_secs(ttr_s),
            body,
        })
    }
}

impl PopRequest {
    /// # Errors
    /// A field is missing or invalid, or there are more than `topics_max` topics.
    pub(super) fn read(mut fields: Fields, topics_max: usize) -> Result<Self, YouzanError> {
        let names = fields.required_text("topic")?;
        let mut topics: Vec<QueueName> = Vec::new();
        for name in names.split(',') {
            let topic = queue_of(name)?;
            if !topics.contains(&topic) {
                topics.push(topic);
            }
            if topics.len() > topics_max {
                return Err(YouzanError::invalid(format!(
                    "\"topic\" has more than {topics_max} topics"
                )));
            }
        }
        let timeout_s = fields.seconds("timeout", 0, TIMEOUT_S_MAX)?;
        Ok(Self {
            topics,
            patience: timeout_s.map(Duration::from_secs),
        })
    }
}

impl NamedJob {
    /// # Errors
    /// The id is missing, or a field is invalid.
    pub(super) fn read(mut fields: Fields) -> Result<Self, YouzanError> {
        let id = id(&mut fields)?;
        let topic = match fields.text("topic")? {
            Some(name) if !name.trim().is_empty() => Some(queue_of(&name)?),
            _ => None,
        };
        Ok(Self { id, topic })
    }
}

/// The id of a job. Spaces around it are dropped, as in the original.
fn id(fields: &mut Fields) -> Result<String, YouzanError> {
    let id = fields.required_text("id")?;
    let id = id.trim();
    match id.parse::<JobKey>() {
        Ok(_) => Ok(id.to_owned()),
        Err(_) => Err(YouzanError::invalid(
            "\"id\" must have 1 to 255 bytes of UTF-8 without control characters",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str) -> Result<AddRequest, YouzanError> {
        AddRequest::read(Fields::parse(text.as_bytes())?, 10)
    }

    #[test]
    fn a_job_is_read_from_the_fields_of_both_forms() {
        for ttr in ["TTR", "ttr"] {
            let text = format!(
                r#"{{"command":"add","topic":" order ","id":" 17 ","delay":5,"{ttr}":60,"body":" b ","new":1}}"#
            );
            let read = add(&text).unwrap();
            assert_eq!((read.topic.as_str(), &*read.id), ("order", "17"));
            assert_eq!((read.delay.as_secs(), read.ttr.as_secs()), (5, 60));
            assert_eq!(read.body, " b ");
        }
    }

    #[test]
    fn an_invalid_field_is_named() {
        for (text, said) in [
            ("", "JSON object"),
            ("[]", "JSON object"),
            ("{}", "\"topic\" is missing"),
            (r#"{"topic":1}"#, "\"topic\" must be a text"),
            (r#"{"topic":"a,b"}"#, "the topic \"a,b\""),
            (
                r#"{"topic":"a","id":17}"#,
                "\"id\" must be a text in quotes, not a number",
            ),
            (r#"{"topic":"a","id":" "}"#, "\"id\" must have 1 to 255"),
            (r#"{"topic":"a","id":"1"}"#, "\"delay\" is missing"),
            (
                r#"{"topic":"a","id":"1","delay":-1}"#,
                "0 to 2147483647, not -1",
            ),
            (r#"{"topic":"a","id":"1","delay":"5"}"#, "not a text"),
            (r#"{"topic":"a","id":"1","delay":1.5}"#, "not 1.5"),
            (r#"{"topic":"a","id":"1","delay":1}"#, "\"TTR\" is missing"),
            (
                r#"{"topic":"a","id":"1","delay":1,"TTR":0}"#,
                "1 to 86400, not 0",
            ),
            (
                r#"{"topic":"a","id":"1","delay":1,"TTR":1}"#,
                "\"body\" is missing",
            ),
            (
                r#"{"topic":"a","id":"1","delay":1,"TTR":1,"body":{}}"#,
                "\"body\" must be a text",
            ),
            (
                r#"{"topic":"a","id":"1","delay":1,"TTR":1,"body":"12345678901"}"#,
                "\"body\" has 11 bytes; at most 10",
            ),
        ] {
            let problem = add(text).unwrap_err().to_string();
            assert!(problem.contains(said), "{text}: {problem}");
        }
    }

    #[test]
    fn topics_of_a_pop_are_separated_by_commas() {
        let pop = |text: &str| PopRequest::read(Fields::parse(text.as_bytes()).unwrap(), 2);
        let read = pop(r#"{"topic":"a, b,a","timeout":3}"#).unwrap();
        let names: Vec<&str> = read.topics.iter().map(QueueName::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(read.patience, Some(Duration::from_secs(3)));
        for wrong in [
            r#"{"topic":""}"#,
            r#"{"topic":"a,"}"#,
            r#"{"topic":"a,b,c"}"#,
        ] {
            assert!(pop(wrong).is_err(), "{wrong}");
        }
    }
}
