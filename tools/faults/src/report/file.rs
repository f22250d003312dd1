//! A run as JSON Lines: the plan, then every episode, every request, and every finding.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::run_report::RunReport;
use crate::audit::Audits;
use crate::history::{Episode, History, Operation};
use crate::oracle::{Finding, judge};
use crate::plan::Plan;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum JsonLine {
    Run {
        plan: Box<Plan>,
        audits: Audits,
        /// Without operations and episodes, which have lines of their own.
        history: History,
    },
    Episode(Episode),
    Operation(Operation),
    Finding(Finding),
}

pub(super) fn write(report: &RunReport, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let history = &report.history;
    let run = JsonLine::Run {
        plan: Box::new(report.plan.clone()),
        audits: report.audits,
        history: history.clone(),
    };
    let episodes = history.episodes.iter().cloned().map(JsonLine::Episode);
    let operations = history.operations.iter().cloned().map(JsonLine::Operation);
    let found = report
        .verdict
        .findings
        .iter()
        .cloned()
        .map(JsonLine::Finding);
    for line in std::iter::once(run)
        .chain(episodes)
        .chain(operations)
        .chain(found)
    {
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads a run and judges it again. Keeps findings that come from the deployment instead of from the history.
///
/// # Errors
/// The file cannot be read, or is not the history of a run.
pub fn read(path: &Path) -> io::Result<RunReport> {
    let (mut history, mut head) = (History::default(), None);
    let mut seen = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        match serde_json::from_str(&line?)? {
            JsonLine::Run {
                plan,
                audits,
                history: begun,
            } => {
                history = begun;
                head = Some((*plan, audits));
            }
            JsonLine::Episode(episode) => history.episodes.push(episode),
            JsonLine::Operation(operation) => history.operations.push(operation),
            JsonLine::Finding(finding) => seen.push(finding),
        }
    }
    let (plan, audits) = head
        .ok_or_else(|| io::Error::other("not the history of a run: its first line has no plan"))?;
    let mut verdict = judge(&history);
    seen.retain(|finding| finding.defect.is_from_deployment());
    verdict.findings.extend(seen);
    Ok(RunReport {
        plan,
        history,
        audits,
        verdict,
    })
}
