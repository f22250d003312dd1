//! Comparing an answer that a document shows with the answer of a server.

use serde_json::Value;

/// Fields whose values differ from run to run. Only their kind is compared.
const VARYING: &[&str] = &[
    "at",
    "id",
    "job",
    "job_id",
    "lease",
    "next_run",
    "now",
    "instance",
    "secret",
    "revision",
    "next",
    "run_at",
    "lease_until",
    "created_at",
    "created_at_ms",
    "ended_at",
    "expires_at",
    "paused_until",
    "elapsed_ms",
    "ttl",
    "used",
];

/// Compares all fields. Values that differ from run to run, such as ids and times, need only be of the same kind.
///
/// # Errors
/// The first difference, with the path to it.
pub fn same_answer(documented: &Value, answer: &Value) -> Result<(), String> {
    compare("answer", documented, answer)
}

fn compare(path: &str, documented: &Value, answer: &Value) -> Result<(), String> {
    match (documented, answer) {
        (Value::Object(one), Value::Object(other)) => {
            if let Some(name) = other.keys().find(|name| !one.contains_key(*name)) {
                return Err(format!(
                    "{path} has a field {name}, which is not documented"
                ));
            }
            for (name, value) in one {
                let path = format!("{path}.{name}");
                let found = other.get(name);
                let found = found.ok_or_else(|| format!("{path} is documented and missing"))?;
                match is_varying(name, value, found) {
                    true => {}
                    false => compare(&path, value, found)?,
                }
            }
            Ok(())
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .try_for_each(|(index, (value, found))| {
                compare(&format!("{path}[{index}]"), value, found)
            }),
        (Value::String(one), Value::String(other)) if same_words(one, other) => Ok(()),
        _ if documented == answer => Ok(()),
        _ => Err(format!(
            "{path} is documented as {documented}, and is {answer}"
        )),
    }
}

/// Whether two texts are the same except for durations in them, such as "2m 5s".
fn same_words(documented: &str, found: &str) -> bool {
    let words = |text: &'_ str| -> Vec<String> {
        let is_duration = |word: &&str| {
            let unit = word.trim_start_matches(|digit: char| digit.is_ascii_digit());
            unit.len() < word.len() && ["ms", "s", "m", "h", "d"].contains(&unit)
        };
        let words = text.split(' ').filter(|word| !is_duration(word));
        words.map(str::to_owned).collect()
    };
    words(documented) == words(found)
}

fn is_varying(name: &str, documented: &Value, found: &Value) -> bool {
    let same_kind = matches!(
        (documented, found),
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_))
    );
    same_kind && VARYING.contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_in_texts_may_differ() {
        assert!(same_words("due 2m 5s ago.", "due 708ms ago."));
        assert!(!same_words("due 5s ago.", "due in 5s."));
        assert!(!same_words("3 jobs", "4 jobs"));
    }

    #[test]
    fn only_what_varies_may_differ() {
        let documented = json!({"jobs": [{"id": "a", "attempt": 1}], "next": null});
        let same = |answer: Value| same_answer(&documented, &answer);
        assert_eq!(
            same(json!({"jobs": [{"id": "b", "attempt": 1}], "next": null})),
            Ok(())
        );
        for (answer, reason) in [
            (
                json!({"jobs": [{"id": "b", "attempt": 2}], "next": null}),
                "answer.jobs[0].attempt is",
            ),
            (
                json!({"jobs": [{"id": 1, "attempt": 1}], "next": null}),
                "answer.jobs[0].id is",
            ),
            (
                json!({"jobs": [{"id": "b"}], "next": null}),
                "answer.jobs[0].attempt is documented",
            ),
            (json!({"jobs": [], "next": null}), "answer.jobs is"),
            (
                json!({"jobs": [{"id": "b", "attempt": 1}]}),
                "answer.next is documented",
            ),
            (
                json!({"jobs": [{"id": "b", "attempt": 1}], "next": "c"}),
                "answer.next is",
            ),
            (
                json!({"jobs": [{"id": "b", "attempt": 1, "key": 1}], "next": null}),
                "answer.jobs[0] has a field key",
            ),
            (json!([]), "answer is"),
        ] {
            let difference = same(answer).unwrap_err();
            assert!(difference.starts_with(reason), "{difference}");
        }
    }
}
