use clap::Args;
use futures_util::future::try_join_all;

use crate::direct_calls::{DirectCalls, connect};
use crate::error::LoadgenError;
use crate::run::ScenarioRun;
use crate::wire::protocol::{BULK, Wire};

/// The flags of `ceiling`.
#[derive(Debug, Clone, Args)]
pub struct CeilingOptions {
    /// Calls in flight over one connection
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Jobs per step
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

/// Jobs per call: one, or as many as the wire allows.
struct CallSizes {
    publish: u64,
    reserve: usize,
}

impl CeilingOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "closed loop, {} calls in flight on one connection",
            self.in_flight
        );
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        let single = CallSizes {
            publish: 1,
            reserve: 1,
        };
        self.step(run, "single", &single).await?;
        let bulk = CallSizes {
            publish: BULK,
            reserve: Wire::Lmstfy.jobs_per_consume(),
        };
        self.step(run, "bulk", &bulk).await
    }

    async fn step(
        &self,
        run: &mut ScenarioRun<'_>,
        what: &str,
        sizes: &CallSizes,
    ) -> Result<(), LoadgenError> {
        let store = connect(run).await?;
        let queue = run.queue(what);
        let mut usages = Vec::new();
        {
            let calls = DirectCalls::new(run, &store, &queue, self.jobs, self.body_bytes)?;
            for part in ["publish", "consume", "ack"] {
                let bar = run.progress(&format!("{what}: {part}"), self.jobs);
                let meter = run.meter()?;
                let work = (0..self.in_flight).map(|_| async {
                    loop {
                        let done = match part {
                            "publish" => calls.publish(sizes.publish).await?,
                            "consume" => calls.reserve(1, sizes.reserve).await?,
                            // The wire of lmstfy has no ack of several jobs.
                            _ => calls.ack(1).await?,
                        };
                        bar.inc(done);
                        if done == 0 {
                            return Ok::<_, LoadgenError>(());
                        }
                    }
                });
                try_join_all(work).await?;
                usages.push((part, meter.read()?));
                bar.finish_and_clear();
            }
        }
        let jobs = self.jobs as f64;
        for (part, usage) in &usages {
            let name = format!("{what} {part}");
            run.report.rate(&name, jobs / usage.seconds, None);
            run.report.cpu(&name, usage, jobs, jobs);
        }
        let all: f64 = usages.iter().map(|(_, usage)| usage.seconds).sum();
        let name = format!("{what} publish + consume + ack");
        run.report.rate(&name, jobs / all, None);
        Ok(())
    }
}
