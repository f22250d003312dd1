//! The format of transcripts.
//!
//! ```text
//! # a comment
//! > PUT /api/$ns/$q?tries=2      a request; `> @admin GET /pools` goes to the admin port
//! + Header: value                a header of it
//! - X-Token                      without the token that is sent otherwise
//! | text                         a line of its body
//! ! reason                       an intended difference: with lmstfy the row is left out
//! ~ 3s                           repeated until the answer is as expected, for at most this time
//! < 201 {"job_id":"$id:a", …}    the expected status and body, exactly; see `template`
//! = Location: /api/$ns           an expected header
//! ```

use std::time::Duration;

/// One request with its expected answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) is_admin: bool,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) without_token: bool,
    pub(crate) body: Option<String>,
    pub(crate) better: Option<String>,
    pub(crate) repeat_within: Duration,
    pub(crate) status: u16,
    pub(crate) expected: String,
    pub(crate) expected_headers: Vec<(String, String)>,
}

/// Reads the rows of a transcript.
pub(crate) fn parse(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let Some(mark) = line.chars().next() else {
            continue;
        };
        let rest = line[mark.len_utf8()..].strip_prefix(' ').unwrap_or("");
        match mark {
            '#' => {}
            '>' => rows.push(request(rest)),
            _ => {
                let row = rows
                    .last_mut()
                    .unwrap_or_else(|| panic!("no request before: {line}"));
                row.add(mark, rest)
                    .unwrap_or_else(|| panic!("cannot be read: {line}"));
            }
        }
    }
    rows
}

fn request(text: &str) -> Row {
    let (is_admin, text) = match text.strip_prefix("@admin ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (method, target) = text
        .split_once(' ')
        .unwrap_or_else(|| panic!("no target: {text}"));
    Row {
        is_admin,
        method: method.to_owned(),
        target: target.to_owned(),
        without_token: is_admin,
        ..Row::default()
    }
}

impl Row {
    fn add(&mut self, mark: char, rest: &str) -> Option<()> {
        match mark {
            '+' => self.headers.push(header(rest)?),
            '-' if rest == "X-Token" => self.without_token = true,
            '|' => match &mut self.body {
                Some(body) => {
                    body.push('\n');
                    body.push_str(rest);
                }
                None => self.body = Some(rest.to_owned()),
            },
            '!' => self.better = Some(rest.to_owned()),
            '~' => {
                let seconds = rest.strip_suffix('s')?.parse().ok()?;
                self.repeat_within = Duration::from_secs_f64(seconds);
            }
            '<' => {
                let (status, body) = rest.split_once(' ').unwrap_or((rest, ""));
                self.status = status.parse().ok()?;
                self.expected = body.to_owned();
            }
            '=' => self.expected_headers.push(header(rest)?),
            _ => return None,
        }
        Some(())
    }
}

fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    Some((name.to_owned(), value.trim().to_owned()))
}
