//! The output of a command.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use serde_json::{Map, Value};
use tidegate::Error;
use tidegate_core::visible_text::escape;
use tokio::sync::oneshot;

use crate::failure::CommandFailure;

/// The fields that identify an object are printed first; the others in the order of their names.
const FIRST_FIELDS: [&str; 4] = ["name", "id", "queue", "key"];

/// The standard output of a command.
#[derive(Debug)]
pub(crate) enum CommandOutput {
    /// Bytes as they are: payloads and results.
    Bytes(Vec<u8>),
    /// An answer of the API.
    Answer(Value),
    /// The JSON of an answer of the API, and its form for people.
    Shown { answer: String, shown: Value },
    /// An answer that cannot be read again, and the remedy if it was not written.
    Once { answer: Value, if_lost: String },
}

impl CommandOutput {
    pub(crate) fn answer(answer: &impl Serialize) -> Result<Self, Error> {
        let value = serde_json::to_value(answer).map_err(Error::Encode)?;
        Ok(Self::Answer(value))
    }

    /// An answer of which people read this.
    pub(crate) fn shown(answer: &impl Serialize, shown: Value) -> Result<Self, Error> {
        // Not by way of a `Value`: numbers of payloads keep their digits, and numbers that no f64 holds are no error.
        let answer = serde_json::to_string(answer).map_err(Error::Encode)?;
        Ok(Self::Shown { answer, shown })
    }

    /// The same answer, which cannot be read again. `if_lost` is the remedy if it was not written.
    pub(crate) fn once(self, if_lost: String) -> Self {
        match self {
            Self::Answer(answer) => Self::Once { answer, if_lost },
            other => other,
        }
    }

    /// Prints it. A reader that closed the pipe has seen enough, except of an answer that cannot be read again.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn print(&self, as_json: bool) -> Result<(), CommandFailure> {
        let failed = |error, then: &str| {
            let text = format!("failed to write the standard output: {error}{then}");
            Err(CommandFailure::NotDone(text))
        };
        let text;
        let bytes = match self {
            Self::Bytes(bytes) => bytes.as_slice(),
            Self::Answer(value) | Self::Once { answer: value, .. } => {
                text = text_of(value, value, as_json);
                text.as_bytes()
            }
            Self::Shown { answer, shown } => {
                text = text_of(answer, shown, as_json);
                text.as_bytes()
            }
        };
        match (write_out(bytes), self) {
            (Ok(()), _) => Ok(()),
            (Err(error), Self::Once { if_lost, .. }) => failed(error, &format!("; {if_lost}")),
            (Err(error), _) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            (Err(error), _) => failed(error, ""),
        }
    }
}

/// Writes to the standard output.
///
/// # Errors
/// It is not possible; `BrokenPipe` if the reader has closed it.
pub(crate) fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Writes to the standard output, in a thread that a reader that stalls holds up alone. The thread ends with the
/// process.
///
/// # Errors
/// As for [`write_out`].
pub(crate) async fn write_aside(text: String) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let (written, result) = oneshot::channel();
    std::thread::spawn(move || drop(written.send(write_out(text.as_bytes()))));
    let result = result.await;
    result.unwrap_or_else(|_| Err(io::Error::other("the thread that writes has ended")))
}

fn text_of(answer: &impl Display, shown: &Value, as_json: bool) -> String {
    match as_json {
        // The escapes of JSON: it has line breaks only as escapes.
        true => format!("{}\n", escape(&answer.to_string())),
        false => readable(shown),
    }
}

/// Objects are lines of names and values, lists are tables.
fn readable(value: &Value) -> String {
    match value {
        Value::Object(fields) => columns(flat(fields).into_iter().map(Vec::from).collect()),
        Value::Array(items) => table(items),
        other => format!("{}\n", cell(other)),
    }
}

fn table(items: &[Value]) -> String {
    let rows: Vec<_> = items
        .iter()
        .filter_map(Value::as_object)
        .map(flat)
        .collect();
    let mut names: Vec<String> = Vec::new();
    for [name, _] in rows.iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let cells = rows.iter().map(|row| {
        let value = |name| row.iter().find(|[known, _]| known == name);
        let values = names
            .iter()
            .map(|name| value(name).map_or_else(String::new, |[_, value]| value.clone()));
        values.collect()
    });
    let lines = std::iter::once(names.clone()).chain(cells).collect();
    columns(lines)
}

/// The fields of an object; the fields of an object inside have its name in front.
fn flat(fields: &Map<String, Value>) -> Vec<[String; 2]> {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let name = escape(name);
        match value {
            Value::Object(inner) => {
                let inner = flat(inner).into_iter();
                pairs.extend(inner.map(|[field, value]| [format!("{name}.{field}"), value]));
            }
            Value::Null => {}
            other => pairs.push([name.into_owned(), cell(other)]),
        }
    }
    pairs.sort_by_key(|[name, _]| {
        let position = FIRST_FIELDS.iter().position(|first| first == name);
        position.unwrap_or(FIRST_FIELDS.len())
    });
    pairs
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text).into_owned(),
        other => escape(&other.to_string()).into_owned(),
    }
}

/// Columns of equal width without lines between them, also where a terminal is too narrow.
fn columns(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_tables_and_control_characters_are_escaped() {
        let queues = json!([
            {"jobs": {"ready": 12}, "queue": "a", "until": null},
            {"closed": true, "jobs": {"ready": 3}, "queue": "long\u{1b}[2J"},
        ]);
        let table = [
            "queue          jobs.ready  closed",
            "a              12",
            "long\\u001b[2J  3           true",
            "",
        ];
        assert_eq!(readable(&queues), table.join("\n"));
        assert_eq!(readable(&json!([])), "\n");
        let wide = json!([{"a": "二", "b": 1}, {"a": "x", "b": 2}]);
        assert_eq!(readable(&wide), "a   b\n二  1\nx   2\n");
    }
}
