//! Names, numbers and texts for requests: ordinary ones, those at a limit, and invalid ones.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::target::{NAMESPACE, TOKEN};

/// The queues that generated requests share, so that they find each other's jobs.
pub(crate) const QUEUES: [&str; 4] = ["q", "a-b_c", "0", "job"];

const ODD_NAMES: [&str; 16] = [
    "", "_q", "a.b", "a,b", ",", ",,a,", "..", ".", "%71", "%2F", "%00", "%zz", "%", "%C3%BC",
    "a%20b", "*",
];
const NUMBERS: [&str; 8] = ["0", "1", "2", "3", "10", "64", "100", "007"];
const EDGES: [&str; 12] = [
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "101",
    "86400",
    "86401",
];
const ODD_NUMBERS: [&str; 16] = [
    "", "-1", "+1", "%2B1", "1.5", "0x1", "1_0", "1e3", "%D9%A1", "%zz", "%", "%4", "1;2", "true",
    "\u{fc}", "%00",
];

/// One of several.
pub(crate) fn one<'a, T: ?Sized>(rng: &mut StdRng, all: &[&'a T]) -> &'a T {
    all.choose(rng).copied().expect("there is one")
}

/// True in this many of a hundred cases.
pub(crate) fn chance(rng: &mut StdRng, percent: u32) -> bool {
    rng.random_range(0..100) < percent
}

pub(crate) fn namespace(rng: &mut StdRng) -> String {
    match rng.random_range(0..100) {
        0..96 => NAMESPACE.to_owned(),
        96..97 => "fuzz2".to_owned(),
        97..99 => one(rng, &ODD_NAMES).to_owned(),
        _ => "n".repeat(rng.random_range(250..2000)),
    }
}

pub(crate) fn queue(rng: &mut StdRng) -> String {
    match rng.random_range(0..100) {
        0..95 => one(rng, &QUEUES).to_owned(),
        95..99 => one(rng, &ODD_NAMES).to_owned(),
        _ => "q".repeat(rng.random_range(250..2000)),
    }
}

/// For consume: one queue, or a list of them.
pub(crate) fn queues(rng: &mut StdRng) -> String {
    let count = match rng.random_range(0..100) {
        0..70 => 1,
        70..97 => rng.random_range(2..6),
        _ => rng.random_range(100..400),
    };
    let names: Vec<String> = (0..count).map(|_| queue(rng)).collect();
    names.join(one(rng, &[",", ",", "%2C"]))
}

pub(crate) fn number(rng: &mut StdRng) -> String {
    match rng.random_range(0..100) {
        0..88 => one(rng, &NUMBERS).to_owned(),
        88..94 => one(rng, &EDGES).to_owned(),
        94..99 => one(rng, &ODD_NUMBERS).to_owned(),
        _ => "9".repeat(rng.random_range(20..3000)),
    }
}

/// The id of a job that exists or existed, or another text.
pub(crate) fn job_id(rng: &mut StdRng, known: &[String]) -> String {
    let id = known.choose(rng).cloned();
    let id = id.unwrap_or_else(|| "00000000000000000000000000".to_owned());
    match rng.random_range(0..100) {
        0..70 => id,
        70..75 => format!("1{id}"),
        75..80 => id.to_lowercase(),
        80..85 => id.chars().skip(1).collect(),
        85..90 => "Z".repeat(rng.random_range(1..60)),
        90..97 => one(rng, &ODD_NAMES).to_owned(),
        _ => "x".repeat(rng.random_range(100..5000)),
    }
}

pub(crate) fn token(rng: &mut StdRng) -> String {
    match rng.random_range(0..100) {
        0..90 => TOKEN.to_owned(),
        90..91 => format!("default:{TOKEN}"),
        91..92 => format!(":{TOKEN}"),
        92..93 => format!("nowhere:{TOKEN}"),
        93..94 => format!("default:default:{TOKEN}"),
        94..95 => "t".repeat(rng.random_range(1..5000)),
        95..97 => "\u{fc}ber".to_owned(),
        _ => one(rng, &["", ":", "a", "%", "\u{0}"]).to_owned(),
    }
}

/// A query of some of these parameters.
pub(crate) fn query(rng: &mut StdRng, names: &[&str]) -> String {
    let mut pairs = Vec::new();
    for name in names {
        if chance(rng, 40) {
            let value = number(rng);
            pairs.push(pair(rng, name, &value));
        }
    }
    if chance(rng, 10) {
        let odd = [
            "",
            "=",
            "&",
            "a",
            "=x",
            "%zz=1",
            ";",
            "token=x",
            "x=%FF",
            "\u{fc}=\u{fc}",
            "delay=1;ttl=2",
        ];
        pairs.push(one(rng, &odd).to_owned());
    }
    if chance(rng, 2) {
        let count = rng.random_range(50..500);
        pairs.extend((0..count).map(|number| format!("p{number}={number}")));
    }
    match pairs.is_empty() {
        true => String::new(),
        false => format!("?{}", pairs.join("&")),
    }
}

fn pair(rng: &mut StdRng, name: &str, value: &str) -> String {
    match rng.random_range(0..100) {
        0..90 => format!("{name}={value}"),
        90..93 => name.to_owned(),
        93..95 => format!("{name}={value}&{name}=2"),
        95..97 => format!("{}={value}", escaped(name)),
        _ => format!("{}={value}", name.to_uppercase()),
    }
}

/// Every byte as `%XX`.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
