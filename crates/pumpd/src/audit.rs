//! `tidegate-pumpd audit`: its flags and its output.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tidegate_daemon::{CommonFlags, run_once};
use tidegate_store::{AuditEvent, AuditFinding, AuditOptions, AuditSummary, Store, StoreConfig};

use crate::PumpdConfig;

const AFTER_HELP: &str = "\
Daemons may run during an audit: changes in progress are not reported. A call
blocks Redis for about 1 ms at most, and is followed by a pause.

With --repair, missing hints are added, counts are corrected, records that
cannot be decoded are moved to the key corrupt of their bucket, and bodies
without a job are deleted. Unknown keys are reported and not changed.
docs/audit.md describes every finding and its repair.

Findings are printed to standard output, one per line: bucket, name of the
finding, description. Progress and logs are printed to standard error.

Exit status: 0 no findings, 1 findings (repaired or not), 2 the audit failed.";

/// Interval of progress lines.
const PROGRESS: Duration = Duration::from_secs(1);

/// The exit status if the audit failed.
const FAILED: u8 = 2;

/// The flags of `tidegate-pumpd audit`.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct AuditFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// Repair findings where this is safe
    #[arg(long)]
    repair: bool,

    /// Audit only this bucket; can be repeated
    #[arg(long, value_name = "NUMBER")]
    bucket: Vec<u16>,

    /// Audit the Redis of this pool
    #[arg(long, value_name = "NAME", default_value = "default")]
    pool: String,

    /// Print findings as JSON Lines; the last line is the summary
    #[arg(long)]
    json: bool,

    /// Pause after each call, in ms; a shorter pause is faster and loads Redis more
    #[arg(long, value_name = "MS", default_value_t = 1)]
    pause_ms: u64,
}

impl AuditFlags {
    /// Reads the settings as the daemon does, and runs the audit. Returns the exit status.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let options = AuditOptions {
            buckets: self.bucket,
            repair: self.repair,
            pause: Duration::from_millis(self.pause_ms),
        };
        let audited = run_once(self.common, async |config: PumpdConfig| {
            let store = config.pool.get(&self.pool);
            let store = store.ok_or_else(|| format!("there is no pool {:?}", self.pool))?;
            audit(store, config.connect_patience, &options, self.json).await
        });
        match audited {
            Ok(AuditSummary { found: 0, .. }) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(problem) => {
                // If standard error is closed, the exit status still reports the failure.
                let _ = writeln!(io::stderr(), "tidegate-pumpd audit: {problem}");
                ExitCode::from(FAILED)
            }
        }
    }
}

async fn audit(
    config: &StoreConfig,
    patience: Duration,
    options: &AuditOptions,
    json: bool,
) -> Result<AuditSummary, String> {
    let store = Store::connect_within(config, patience).await;
    let store = store.map_err(|error| error.to_string())?;
    for bucket in &options.buckets {
        if u32::from(*bucket) >= store.buckets() {
            return Err(format!("there are {} buckets, from 0", store.buckets()));
        }
    }
    let buckets = match options.buckets.len() {
        0 => u64::from(store.buckets()),
        some => some as u64,
    };
    let mut teller = AuditOutput::new(json, buckets);
    let audited = store
        .audit(options, &mut |event| teller.on_event(&event))
        .await;
    let summary = audited.map_err(|error| error.to_string())?;
    teller.finish(summary)?;
    Ok(summary)
}

/// Prints findings and progress.
struct AuditOutput {
    json: bool,
    buckets: u64,
    buckets_done: u64,
    jobs: u64,
    progress_at: Instant,
    /// The first error of standard output.
    output_error: Option<io::Error>,
}

impl AuditOutput {
    fn new(json: bool, buckets: u64) -> Self {
        Self {
            json,
            buckets,
            buckets_done: 0,
            jobs: 0,
            progress_at: Instant::now(),
            output_error: None,
        }
    }

    fn on_event(&mut self, event: &AuditEvent) {
        match event {
            AuditEvent::Found(finding) => self.print_line(&self.finding_line(finding)),
            AuditEvent::BucketDone { jobs, .. } => {
                self.buckets_done += 1;
                self.jobs += jobs;
                self.progress();
            }
        }
    }

    fn finding_line(&self, finding: &AuditFinding) -> String {
        let (defect, is_repaired) = (&finding.defect, finding.repaired);
        if self.json {
            let (bucket, name, text) = (finding.bucket, defect.name(), defect.to_string());
            let line =
                json!({ "bucket": bucket, "finding": name, "text": text, "repaired": is_repaired });
            return line.to_string();
        }
        let prefix = finding.bucket.map(|bucket| format!("bucket {bucket}: "));
        let end = if is_repaired { " (repaired)" } else { "" };
        let (prefix, name) = (prefix.unwrap_or_default(), defect.name());
        format!("{prefix}{name}: {defect}{end}")
    }

    fn print_line(&mut self, line: &str) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.output_error.get_or_insert(error);
        }
    }

    fn progress(&mut self) {
        if self.progress_at.elapsed() < PROGRESS || !io::stderr().is_terminal() {
            return;
        }
        self.progress_at = Instant::now();
        let (done, all, jobs) = (self.buckets_done, self.buckets, self.jobs);
        // A lost line of progress is not an error.
        let _ = writeln!(io::stderr(), "{done} of {all} buckets, {jobs} jobs");
    }

    fn finish(&mut self, summary: AuditSummary) -> Result<(), String> {
        let AuditSummary {
            buckets,
            jobs,
            found,
            repaired: is_repaired,
            queues_not_compared: not_compared,
            segments_not_checked,
        } = summary;
        let line = if self.json {
            json!({ "buckets": buckets, "jobs": jobs, "found": found, "repaired": is_repaired, "not_compared": not_compared, "segments_not_checked": segments_not_checked })
                .to_string()
        } else {
            format!(
                "{buckets} buckets, {jobs} jobs: {found} findings, {is_repaired} repaired, {not_compared} queues too busy to \
                 compare their counts"
            )
        };
        self.print_line(&line);
        match self.output_error.take() {
            None if segments_not_checked > 0 => Err(format!(
                "{segments_not_checked} segments of the cold tier were not looked for, since the object store could not be listed"
            )),
            None => Ok(()),
            Some(error) => Err(format!("failed to write to standard output: {error}")),
        }
    }
}
