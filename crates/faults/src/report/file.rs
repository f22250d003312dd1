//! A run as lines of JSON: the plan, then every episode, then every request, then what was found.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::history::{Episode, History, Moment, Operation};
use crate::oracle::judge;
use crate::plan::Plan;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Run {
        plan: Box<Plan>,
        began: Moment,
        bound: u64,
        respawned: Moment,
        ended: Moment,
    },
    Episode(Episode),
    Operation(Operation),
    Found(String),
}

pub(super) fn write(report: &Report, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let history = &report.history;
    let run = Line::Run {
        plan: Box::new(report.plan.clone()),
        began: report.began,
        bound: history.bound,
        respawned: history.respawned,
        ended: history.ended,
    };
    let episodes = history.episodes.iter().cloned().map(Line::Episode);
    let operations = history.operations.iter().cloned().map(Line::Operation);
    let findings = report.verdict.findings.iter();
    let found = findings.map(|it| Line::Found(format!("{}: {}", it.defect, it.text)));
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

/// Reads a run again and judges it anew. What was found in Redis itself is not found again.
///
/// # Errors
/// There is no such file, or it is none of a run.
pub fn read(path: &Path) -> io::Result<Report> {
    let (mut history, mut head) = (History::default(), None);
    for line in BufReader::new(File::open(path)?).lines() {
        match serde_json::from_str(&line?)? {
            Line::Run {
                plan,
                began,
                bound,
                respawned,
                ended,
            } => {
                (history.bound, history.respawned, history.ended) = (bound, respawned, ended);
                head = Some((*plan, began));
            }
            Line::Episode(episode) => history.episodes.push(episode),
            Line::Operation(operation) => history.operations.push(operation),
            Line::Found(_) => {}
        }
    }
    let (plan, began) = head.ok_or_else(|| io::Error::other("it does not begin with a run"))?;
    let verdict = judge(&history);
    Ok(Report {
        plan,
        began,
        history,
        verdict,
    })
}
