//! The report of a case that failed: its bytes in their shortest form, and how to send them again.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_testkit::seed;

use crate::CASE_VARIABLE;
use crate::delivery::{ByteDelivery, deliver};
use crate::target::{FuzzTarget, Port};
use crate::verdict::judge;
use crate::wire::shown;

/// How long to look for a shorter form.
const SHORTEN_TIME: Duration = Duration::from_secs(20);

/// The bytes that were sent, and how.
#[derive(Debug, Clone)]
pub(crate) struct FuzzCase {
    pub(crate) name: String,
    pub(crate) port: Port,
    pub(crate) bytes: Vec<u8>,
    pub(crate) delivery: ByteDelivery,
}

/// Sends a case and judges the outcome.
pub(crate) async fn verdict(target: &FuzzTarget, case: &FuzzCase) -> Result<(), String> {
    let outcome = deliver(target.address(case.port), &case.bytes, &case.delivery).await;
    judge(case.port, &case.bytes, &outcome).map(drop)
}

/// Fails the test with a case.
pub(crate) async fn report(target: &FuzzTarget, case: FuzzCase, problem: &str) -> ! {
    let mut text = describe(&case, problem);
    let whole = FuzzCase {
        delivery: ByteDelivery::Whole,
        ..case
    };
    if let Some(short) = shorten(target, whole).await {
        let _ = write!(text, "\nin short:\n{}", describe(&short, "fails as well"));
    }
    panic!("{text}");
}

/// Fails the test with the cases that were sent last: one of them is the cause.
pub(crate) fn report_suspects(suspects: &[FuzzCase], problem: &str) -> ! {
    let mut text = format!("{problem}\nthe last cases, newest last:");
    for case in suspects {
        let _ = write!(text, "\n{}", describe(case, "sent"));
    }
    panic!("{text}");
}

fn describe(case: &FuzzCase, problem: &str) -> String {
    let path = save(case);
    let port = case.port.name();
    format!(
        "{}, to the {port} port, {:?}: {problem}\n  bytes: {}\n  again: {CASE_VARIABLE}={} cargo test -p tidegate-tests --test fuzz",
        case.name,
        case.delivery,
        shown(&case.bytes),
        path.display()
    )
}

/// Writes a case to a file in the format of the corpus.
fn save(case: &FuzzCase) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tidegate-fuzz-{}", seed()));
    std::fs::create_dir_all(&folder).unwrap();
    let plain: String = case
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name = format!("{}-{plain}-{}.http", case.port.name(), case.bytes.len());
    let path = folder.join(name);
    std::fs::write(&path, &case.bytes).unwrap();
    path
}

/// Removes parts while the case still fails. Returns nothing if it does not fail again.
async fn shorten(target: &FuzzTarget, mut case: FuzzCase) -> Option<FuzzCase> {
    let deadline = Instant::now() + SHORTEN_TIME;
    verdict(target, &case).await.err()?;
    let mut part = case.bytes.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < case.bytes.len() && Instant::now() < deadline {
            let mut shorter = case.clone();
            shorter.bytes.drain(at..(at + part).min(case.bytes.len()));
            match verdict(target, &shorter).await {
                Err(_) => case = shorter,
                Ok(()) => at += part,
            }
        }
        part /= 2;
    }
    Some(case)
}
