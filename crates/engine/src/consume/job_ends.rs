//! Clients that wait for the ends of jobs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::JobId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The jobs of a deployment whose ends clients of this process wait for.
///
/// A message says that a job has ended. It is a hint: the client reads the result, and also reads it now and then, in
/// case the message was lost.
#[derive(Debug, Default)]
pub(crate) struct JobEnds {
    watched: Mutex<HashMap<JobNumber, WatchedJob>>,
    /// Cancelled when the process stops: no client waits any longer.
    pub(crate) closed: CancellationToken,
}

/// Bucket and number of a job, as messages have them.
type JobNumber = (u16, u64);

#[derive(Debug, Default)]
struct WatchedJob {
    ended: Arc<Notify>,
    /// How many clients wait.
    clients: usize,
}

/// A client that waits for the end of a job.
#[derive(Debug)]
pub(crate) struct EndWatch<'a> {
    ends: &'a JobEnds,
    number: JobNumber,
    ended: Arc<Notify>,
}

impl JobEnds {
    /// Begins to watch a job. Call it before its state is read, so that no end is missed.
    pub(crate) fn watch(&self, id: JobId) -> EndWatch<'_> {
        let number = (id.bucket(), id.number());
        let mut watched = self.watched.lock();
        let job = watched.entry(number).or_default();
        job.clients += 1;
        EndWatch {
            ends: self,
            number,
            ended: Arc::clone(&job.ended),
        }
    }

    /// Wakes the clients that wait for this job.
    pub(crate) fn ended(&self, bucket: u16, number: u64) {
        if let Some(job) = self.watched.lock().get(&(bucket, number)) {
            job.ended.notify_waiters();
        }
    }

    /// Wakes the clients that wait for jobs of a bucket: messages may have been lost.
    pub(crate) fn check_bucket(&self, bucket: u16) {
        for (_, job) in self
            .watched
            .lock()
            .iter()
            .filter(|((of, _), _)| *of == bucket)
        {
            job.ended.notify_waiters();
        }
    }

    /// The buckets of the jobs that clients wait for.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        self.watched
            .lock()
            .keys()
            .map(|(bucket, _)| *bucket)
            .collect()
    }
}

impl EndWatch<'_> {
    /// A future that is ready after the next message. It counts from its creation, also if it is polled later.
    pub(crate) fn notified(&self) -> impl Future<Output = ()> + use<'_> {
        self.ended.notified()
    }
}

impl Drop for EndWatch<'_> {
    fn drop(&mut self) {
        let mut watched = self.ends.watched.lock();
        if let Some(job) = watched.get_mut(&self.number) {
            job.clients -= 1;
            if job.clients == 0 {
                watched.remove(&self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_client_of_a_job_is_woken_and_none_is_left() {
        let ends = JobEnds::default();
        let id: JobId = "01M83SF8SS01C000001X144WED".parse().unwrap();
        let (first, second) = (ends.watch(id), ends.watch(id));
        let waiting = [first.notified(), second.notified()];
        ends.ended(id.bucket(), id.number() + 1);
        ends.ended(id.bucket(), id.number());
        for waiting in waiting {
            assert_eq!(waiting.now_or_never(), Some(()));
        }
        drop(first);
        let waiting = second.notified();
        assert!(ends.buckets().into_iter().eq([id.bucket()]));
        ends.check_bucket(id.bucket() + 1);
        ends.check_bucket(id.bucket());
        assert_eq!(waiting.now_or_never(), Some(()));
        drop(second);
        assert!(ends.watched.lock().is_empty());
    }
}
