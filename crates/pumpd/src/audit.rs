//! `tidegate-pumpd audit`: what an operator is told of an audit, line by line.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tidegate_launch::{CommonFlags, at_once};
use tidegate_store::{AuditEvent, AuditOptions, AuditSummary, Finding, Store, StoreConfig};

use crate::Config;

const AFTER_HELP: &str = "\
The deployment may be at work: what is under way is no finding. Redis is held
for no more than about a millisecond at a time, and has a pause after each call.

With --repair: missing hints are added, counts corrected, jobs that cannot be
read set aside under the key corrupt of their bucket, bodies of no job deleted.
Keys that nothing explains are told and left. docs/audit.md explains every
finding.

Findings go to standard output, progress and logs to standard error.

Exit status: 0 nothing is amiss, 1 something is or was, 2 it could not be done.";

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(1);

/// The audit could not be done.
const FAILED: u8 = 2;

/// The flags of an audit.
#[expect(missing_debug_implementations, reason = "they may hold secrets")]
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct AuditFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// Mend what is found, where that is safe
    #[arg(long)]
    repair: bool,

    /// Look at this bucket only; may be given several times
    #[arg(long, value_name = "NUMBER")]
    bucket: Vec<u16>,

    /// Look at the Redis of this pool
    #[arg(long, value_name = "NAME", default_value = "default")]
    pool: String,

    /// Tell of findings as JSON, one object a line, and of the whole in the last one
    #[arg(long)]
    json: bool,

    /// The pause after each call, in ms; less is faster
    #[arg(long, value_name = "MS", default_value_t = 1)]
    pause_ms: u64,
}

impl AuditFlags {
    /// Makes the settings as the daemon does, and audits.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let Self {
            common,
            repair,
            bucket,
            pool,
            json,
            pause_ms,
        } = self;
        let options = AuditOptions {
            buckets: bucket,
            repair,
            pause: Duration::from_millis(pause_ms),
        };
        let audited = at_once(common, |config: Config| async move {
            let store = config.pool.get(&pool);
            let store = store.ok_or_else(|| format!("there is no pool {pool:?}"))?;
            audit(store, config.connect_patience, &options, json).await
        });
        match audited {
            Ok(AuditSummary { found: 0, .. }) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(problem) => {
                // There is nowhere left to say that this failed.
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
    let mut teller = Teller::new(json, buckets);
    let audited = store.audit(options, &mut |event| teller.hear(&event)).await;
    let summary = audited.map_err(|error| error.to_string())?;
    teller.conclude(summary)?;
    Ok(summary)
}

/// Tells what is heard.
struct Teller {
    json: bool,
    buckets: u64,
    buckets_done: u64,
    jobs: u64,
    told_at: Instant,
    /// Why findings cannot be told any more.
    broken: Option<io::Error>,
}

impl Teller {
    fn new(json: bool, buckets: u64) -> Self {
        Self {
            json,
            buckets,
            buckets_done: 0,
            jobs: 0,
            told_at: Instant::now(),
            broken: None,
        }
    }

    fn hear(&mut self, event: &AuditEvent) {
        match event {
            AuditEvent::Found(finding) => self.say(&self.line_of(finding)),
            AuditEvent::BucketDone { jobs, .. } => {
                self.buckets_done += 1;
                self.jobs += jobs;
                self.progress();
            }
        }
    }

    fn line_of(&self, finding: &Finding) -> String {
        let (defect, mended) = (&finding.defect, finding.mended);
        if self.json {
            let what = defect.to_string();
            let (bucket, name) = (finding.bucket, defect.name());
            return json!({ "bucket": bucket, "defect": name, "what": what, "mended": mended })
                .to_string();
        }
        let place = finding.bucket.map(|bucket| format!("bucket {bucket}: "));
        let end = if mended { " (mended)" } else { "" };
        format!("{}{defect}{end}", place.unwrap_or_default())
    }

    fn say(&mut self, line: &str) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.broken.get_or_insert(error);
        }
    }

    fn progress(&mut self) {
        if self.told_at.elapsed() < PROGRESS || !io::stderr().is_terminal() {
            return;
        }
        self.told_at = Instant::now();
        let (done, all, jobs) = (self.buckets_done, self.buckets, self.jobs);
        // Nobody misses a line of progress.
        let _ = writeln!(io::stderr(), "{done} of {all} buckets, {jobs} jobs");
    }

    fn conclude(&mut self, summary: AuditSummary) -> Result<(), String> {
        let AuditSummary {
            buckets,
            jobs,
            found,
            mended,
            uncounted,
        } = summary;
        let line = if self.json {
            json!({ "buckets": buckets, "jobs": jobs, "found": found, "mended": mended, "uncounted": uncounted })
                .to_string()
        } else {
            format!(
                "{buckets} buckets, {jobs} jobs: {found} findings, {mended} mended, {uncounted} queues too busy to be \
                 counted"
            )
        };
        self.say(&line);
        match self.broken.take() {
            None => Ok(()),
            Some(error) => Err(format!("standard output: {error}")),
        }
    }
}
