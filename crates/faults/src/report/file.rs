//! A run as lines of JSON: the plan, then every episode, then every request, then what was found.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::audit::Audits;
use crate::history::{Episode, History, Moment, Operation, RateLimit, Span};
use crate::oracle::{Finding, judge};
use crate::plan::Plan;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Run {
        plan: Box<Plan>,
        began: Moment,
        bound: u64,
        #[serde(default)]
        busy: Vec<Span>,
        laned: Vec<u16>,
        limits: Vec<RateLimit>,
        ended: Moment,
        audits: Audits,
    },
    Episode(Episode),
    Operation(Operation),
    Found(Finding),
}

pub(super) fn write(report: &Report, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let history = &report.history;
    let run = Line::Run {
        plan: Box::new(report.plan.clone()),
        began: report.history.began,
        bound: history.bound,
        busy: history.busy.clone(),
        laned: history.laned.clone(),
        limits: history.limits.clone(),
        ended: history.ended,
        audits: report.audits,
    };
    let episodes = history.episodes.iter().cloned().map(Line::Episode);
    let operations = history.operations.iter().cloned().map(Line::Operation);
    let found = report.verdict.findings.iter().cloned().map(Line::Found);
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

/// Reads a run again and judges it anew. What was found in the world itself, and not in the history, is kept.
///
/// # Errors
/// There is no such file, or it is none of a run.
pub fn read(path: &Path) -> io::Result<Report> {
    let (mut history, mut head) = (History::default(), None);
    let mut seen = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        match serde_json::from_str(&line?)? {
            Line::Run {
                plan,
                began,
                bound,
                busy,
                laned,
                limits,
                ended,
                audits,
            } => {
                (history.began, history.ended) = (began, ended);
                (history.bound, history.busy) = (bound, busy);
                (history.laned, history.limits) = (laned, limits);
                history.is_replicated = plan.keeps_what_it_acknowledged();
                head = Some((*plan, audits));
            }
            Line::Episode(episode) => history.episodes.push(episode),
            Line::Operation(operation) => history.operations.push(operation),
            Line::Found(finding) => seen.push(finding),
        }
    }
    let (plan, audits) = head.ok_or_else(|| io::Error::other("it does not begin with a run"))?;
    let mut verdict = judge(&history);
    seen.retain(|finding| finding.defect.is_seen_in_the_world());
    verdict.findings.extend(seen);
    Ok(Report {
        plan,
        history,
        audits,
        verdict,
    })
}
