//! Bodies and attributes of jobs. Both are derived from the parameters of a job, which can be read back from its body.
//! So a delivered job can be compared byte by byte with the published one.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tidegate_testkit::ReceivedJob;

use crate::history::VersionSpec;

/// The limit of attributes per job.
pub(crate) const ATTRIBUTES_MAX: u8 = 16;
const VALUE_BYTES_MAX: usize = 128;
/// Jobs with at least this many attributes have values of the maximum length.
const LONG_VALUES_FROM: u8 = 8;
/// Prefix of a body that is not text: invalid in JSON and UTF-8.
const BINARY: &[u8] = b"\xFF\x00tg";
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

/// Returns the body of a job: its parameters, then padding. The padding of jobs with odd numbers, and of all binary
/// bodies, does not compress.
pub(super) fn body(terms: &VersionSpec) -> Vec<u8> {
    let mut random = random_from(terms.number);
    if terms.is_binary {
        let mut body = BINARY.to_vec();
        body.extend(terms.number.to_be_bytes());
        body.extend((terms.bytes as u64).to_be_bytes());
        body.push(terms.attributes);
        let head = body.len();
        body.resize(head.max(terms.bytes), 0);
        random.fill(&mut body[head..]);
        return body;
    }
    let head = format!(
        "{{\"job\":{},\"bytes\":{},\"attributes\":{},\"pad\":\"",
        terms.number, terms.bytes, terms.attributes
    );
    let length = terms.bytes.saturating_sub(head.len() + 2);
    let mut pad = vec![0; length];
    match terms.number.is_multiple_of(2) {
        true => pad.fill(b'a' + (terms.number % 26) as u8),
        false => random.fill(&mut pad[..]),
    }
    if !terms.number.is_multiple_of(2) {
        let letter = |byte: &mut u8| *byte = LETTERS[usize::from(*byte) % LETTERS.len()];
        pad.iter_mut().for_each(letter);
    }
    [head.as_bytes(), &pad, b"\"}"].concat()
}

/// Returns the attributes of a job: names without `Job-Attr-`, and values.
pub(super) fn attributes(terms: &VersionSpec) -> Vec<(String, String)> {
    let mut random = random_from(!terms.number);
    let numbers = 0..terms.attributes;
    let attributes = numbers.map(|number| {
        let length = random.random_range(0..20);
        let name = text(&mut random, length, |byte| LETTERS[byte % LETTERS.len()]);
        let length = match terms.attributes >= LONG_VALUES_FROM {
            true => VALUE_BYTES_MAX,
            false => random.random_range(1..=VALUE_BYTES_MAX / 4),
        };
        // All visible ASCII characters, including quotes and brackets.
        let value = text(&mut random, length, |byte| b'!' + (byte % 94) as u8);
        // A separator before the number, so that two names cannot be equal.
        (format!("{name}-{number}"), value)
    });
    attributes.collect()
}

/// Returns the number of a job if its body and attributes are exactly as they were published under that number.
pub(super) fn number_of(job: &ReceivedJob) -> Option<u64> {
    let found: BTreeMap<String, String> = match &job.attributes {
        Value::Null => BTreeMap::new(),
        shown => serde_json::from_value(shown.clone()).ok()?,
    };
    number_in(&job.body, &found)
}

/// The same, for these attributes, whose names are in lower case.
pub(super) fn number_in(body: &[u8], found: &BTreeMap<String, String>) -> Option<u64> {
    let terms = parse_parameters(body)?;
    let expected: BTreeMap<String, String> = attributes(&terms)
        .into_iter()
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    (self::body(&terms) == body && expected == *found).then_some(terms.number)
}

fn parse_parameters(body: &[u8]) -> Option<VersionSpec> {
    if let Some(rest) = body.strip_prefix(BINARY) {
        let (number, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        return Some(VersionSpec {
            number: u64::from_be_bytes(*number),
            bytes: usize::try_from(u64::from_be_bytes(*bytes)).ok()?,
            attributes: *rest.first()?,
            is_binary: true,
            ..VersionSpec::default()
        })
        .filter(|terms| terms.bytes <= body.len());
    }
    let value: Value = serde_json::from_slice(body).ok()?;
    Some(VersionSpec {
        number: value["job"].as_u64()?,
        bytes: usize::try_from(value["bytes"].as_u64()?).ok()?,
        attributes: u8::try_from(value["attributes"].as_u64()?).ok()?,
        ..VersionSpec::default()
    })
    .filter(|terms| terms.bytes <= body.len())
}

fn text(random: &mut StdRng, length: usize, byte: impl Fn(usize) -> u8) -> String {
    let characters = (0..length).map(|_| char::from(byte(random.random_range(0..usize::MAX))));
    characters.collect()
}

fn random_from(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn delivery(body: Vec<u8>, attributes: Value) -> ReceivedJob {
        ReceivedJob {
            id: String::new(),
            body,
            queue: String::new(),
            remain_tries: 0,
            ttl_s: 0,
            elapsed_ms: 0,
            attributes,
        }
    }

    #[test]
    fn a_body_identifies_its_job_only_if_every_byte_matches() {
        for bytes in [0, 60, 70_000] {
            for (number, is_binary) in [(42, false), (43, false), (44, true)] {
                let terms = VersionSpec {
                    number,
                    bytes,
                    is_binary,
                    ..VersionSpec::default()
                };
                let mut body = body(&terms);
                assert!(body.len() >= bytes);
                let read = |body: &[u8]| number_of(&delivery(body.to_vec(), Value::Null));
                assert_eq!(read(&body), Some(number));
                let at = body.len() - 3;
                body[at] ^= 1;
                assert_ne!(read(&body), Some(number));
                body.pop();
                assert_eq!(read(&body), None);
            }
        }
    }

    #[test]
    fn no_two_attributes_of_a_job_have_the_same_name() {
        for number in 0..5000 {
            let terms = VersionSpec {
                number,
                attributes: ATTRIBUTES_MAX,
                ..VersionSpec::default()
            };
            let names = attributes(&terms).into_iter();
            let names: BTreeSet<String> = names.map(|(name, _)| name.to_lowercase()).collect();
            assert_eq!(names.len(), usize::from(ATTRIBUTES_MAX), "job {number}");
        }
    }

    #[test]
    fn attributes_are_compared_too() {
        for count in [3, ATTRIBUTES_MAX] {
            let terms = VersionSpec {
                number: 7,
                bytes: 100,
                attributes: count,
                ..VersionSpec::default()
            };
            let mut shown = json!({});
            for (name, value) in attributes(&terms) {
                shown[name.to_lowercase()] = value.into();
            }
            let body = body(&terms);
            assert_eq!(number_of(&delivery(body.clone(), shown.clone())), Some(7));
            assert_eq!(number_of(&delivery(body.clone(), Value::Null)), None);
            let first = shown.as_object_mut().unwrap().values_mut().next().unwrap();
            *first = "changed".into();
            assert_eq!(number_of(&delivery(body, shown)), None);
        }
    }
}
