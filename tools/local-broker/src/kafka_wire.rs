//! Two requests of Kafka's protocol: enough to see that a broker is up, and to make a topic.

use std::io::{self, Read, Write};

/// The number and version of a request.
pub(crate) type RequestKind = (i16, i16);

pub(crate) const API_VERSIONS: RequestKind = (18, 0);
pub(crate) const CREATE_TOPICS: RequestKind = (19, 2);
/// The error of a topic whose name is in use.
pub(crate) const TOPIC_EXISTS: i16 = 36;
const CLIENT: &str = "tidegate";
const TOPIC_LIMIT_MS: i32 = 10_000;
/// The size, and the number of the request that is answered.
const HEAD: usize = 4;
/// Larger answers are not Kafka's.
const ANSWER_MAX: usize = 1 << 20;

fn text(bytes: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).unwrap_or(i16::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Sends a request, and returns the answer without its head.
pub(crate) fn ask(
    connection: &mut (impl Read + Write),
    (kind, version): RequestKind,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend(kind.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    text(&mut request, CLIENT);
    request.extend(body);
    let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
    connection.write_all(&[&length.to_be_bytes(), request.as_slice()].concat())?;
    let mut length = [0; 4];
    connection.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if !(HEAD..ANSWER_MAX).contains(&length) {
        return Err(io::Error::other("the answer is not Kafka's"));
    }
    let mut answer = vec![0; length];
    connection.read_exact(&mut answer)?;
    Ok(answer.split_off(HEAD))
}

/// The body of a request that makes a topic with these settings, and one replica of each partition.
pub(crate) fn create_topic_request(
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(1_i32.to_be_bytes());
    text(&mut body, name);
    body.extend(partitions.to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    // No assignments of replicas.
    body.extend(0_i32.to_be_bytes());
    let count = i32::try_from(settings.len()).unwrap_or(i32::MAX);
    body.extend(count.to_be_bytes());
    for (key, value) in settings {
        text(&mut body, key);
        text(&mut body, value);
    }
    body.extend(TOPIC_LIMIT_MS.to_be_bytes());
    body.push(0);
    body
}

/// The error code in the answer about one topic; 0 is none.
pub(crate) fn topic_error(answer: &[u8]) -> Option<i16> {
    // The time of a throttle, the count of topics, the length of the name.
    let length = i16::from_be_bytes(answer.get(8..10)?.try_into().ok()?);
    let at = 10 + usize::try_from(length).ok()?;
    let code = answer.get(at..at + 2)?.try_into().ok()?;
    Some(i16::from_be_bytes(code))
}
