//! What is told of a case that failed: its bytes in their shortest form, and how to send them again.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_testkit::seed;

use crate::CASE_VARIABLE;
use crate::delivery::{Delivery, deliver};
use crate::target::{Port, Target};
use crate::verdict::judge;
use crate::wire::shown;

/// How long to look for a shorter form.
const SHORTEN_TIME: Duration = Duration::from_secs(20);

/// Something that was sent, and how.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) port: Port,
    pub(crate) bytes: Vec<u8>,
    pub(crate) delivery: Delivery,
}

/// Sends a case and judges what comes back.
pub(crate) async fn verdict(target: &Target, case: &Case) -> Result<(), String> {
    let outcome = deliver(target.address(case.port), &case.bytes, &case.delivery).await;
    judge(case.port, &case.bytes, &outcome).map(drop)
}

/// Fails the test with a case.
pub(crate) async fn report(target: &Target, case: Case, problem: &str) -> ! {
    let mut text = told(&case, problem);
    let whole = Case {
        delivery: Delivery::Whole,
        ..case
    };
    if let Some(short) = shorten(target, whole).await {
        let _ = write!(text, "\nin short:\n{}", told(&short, "fails as well"));
    }
    panic!("{text}");
}

/// Fails the test with what was sent lately: one of these did it.
pub(crate) fn report_suspects(suspects: &[Case], problem: &str) -> ! {
    let mut text = format!("{problem}\nsent lately, the last ones last:");
    for case in suspects {
        let _ = write!(text, "\n{}", told(case, "sent"));
    }
    panic!("{text}");
}

fn told(case: &Case, problem: &str) -> String {
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

/// Writes a case to a file that the corpus would take.
fn save(case: &Case) -> PathBuf {
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

/// Takes parts away for as long as the case still fails; nothing if it does not fail again.
async fn shorten(target: &Target, mut case: Case) -> Option<Case> {
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
