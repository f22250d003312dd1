//! Streams with bytes changed.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const INTERESTING: [&[u8]; 12] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\r\n\r\n",
    b":",
    b"%",
    b"\xff",
    b"0",
    b"HTTP/1.1",
    b",",
];
/// Longer streams do not grow.
const LENGTH_MAX: usize = 200_000;

/// Changes a stream in one to six places, also with parts of `others`.
pub(crate) fn mutate(rng: &mut StdRng, stream: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..rng.random_range(1..=6) {
        if stream.is_empty() {
            return;
        }
        let at = rng.random_range(0..stream.len());
        let end = (at + rng.random_range(1..40)).min(stream.len());
        match rng.random_range(0..8) {
            0 => stream[at] ^= 1 << rng.random_range(0..8),
            1 => stream[at] = rng.random(),
            2 => drop(stream.drain(at..end)),
            3 => stream.truncate(at),
            _ if stream.len() > LENGTH_MAX => {}
            4 => {
                let part = stream[at..end].to_vec();
                let times = rng.random_range(1..20);
                insert(stream, at, &part.repeat(times));
            }
            5 => insert(stream, at, INTERESTING.choose(rng).expect("there is one")),
            6 => {
                let Some(other) = others.choose(rng).filter(|other| !other.is_empty()) else {
                    continue;
                };
                let begin = rng.random_range(0..other.len());
                stream.truncate(at);
                stream.extend_from_slice(&other[begin..]);
            }
            _ => {
                let from = rng.random_range(0..stream.len());
                let part = stream[from..(from + end - at).min(stream.len())].to_vec();
                stream.splice(at..end, part).for_each(drop);
            }
        }
    }
}

fn insert(stream: &mut Vec<u8>, at: usize, part: &[u8]) {
    stream.splice(at..at, part.iter().copied()).for_each(drop);
}
