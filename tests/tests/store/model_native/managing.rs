//! The verbs on one job that a client names.

use tidegate_core::IfRunning;
use tidegate_core::v1::job::JobChange;
use tidegate_store::{ChangeOutcome, JobEnd, JobReference};

use super::NativeRun;
use super::oracle::ModelEnd;
use super::steps::NativeStep;

impl NativeRun<'_> {
    /// A step that names a job which was never published does nothing.
    pub(super) async fn manage(&mut self, step: &NativeStep) {
        let (NativeStep::Cancel { queue, job, .. }
        | NativeStep::Change { queue, job, .. }
        | NativeStep::Promote { queue, job }
        | NativeStep::Peek { queue, job }
        | NativeStep::Result { queue, job }) = step
        else {
            panic!("{step:?}");
        };
        let queue = *queue;
        let Some(job) = self.named(queue, *job) else {
            return;
        };
        match step {
            NativeStep::Cancel { if_running, .. } => self.cancel(queue, job, *if_running).await,
            NativeStep::Change { change, .. } => self.change(queue, job, *change).await,
            NativeStep::Promote { .. } => self.promote(queue, job).await,
            NativeStep::Result { .. } => self.result(queue, job).await,
            _ => self.peek(queue, job).await,
        }
    }

    async fn cancel(&mut self, queue: usize, job: JobReference, if_running: IfRunning) {
        let store = self.store();
        let cancelled = store.cancel(&self.queues[queue], job, if_running);
        let cancelled = cancelled.await.unwrap();
        self.note("cancel", &cancelled);
        assert_eq!(cancelled, self.model.cancel(queue, job, if_running));
    }

    async fn promote(&mut self, queue: usize, job: JobReference) {
        let store = self.store();
        let promoted = store.promote(&self.queues[queue], job).await.unwrap();
        self.note("promote", &promoted);
        assert_eq!(promoted, self.model.promote(queue, job));
    }

    async fn result(&mut self, queue: usize, job: JobReference) {
        let store = self.store();
        let end = store.result(&self.queues[queue], job).await.unwrap();
        self.note("result", &end);
        let expected = self.model.result(queue, job);
        match (end, &expected) {
            (JobEnd::Done(shown), ModelEnd::Done(id)) => {
                let (id, job) = (*id, &self.model.jobs[id]);
                assert_eq!(shown.id, id);
                let shown = (&shown.attributes[..], &shown.body);
                assert_eq!(shown, (job.attributes(), job.body()));
                let (has_result, has_key) = (job.result.is_some(), job.has_key);
                if has_result {
                    self.count("result: of a worker");
                }
                if !has_key {
                    self.count("result: of a job without its key");
                }
            }
            (JobEnd::Dead(id), _) => assert_eq!(expected, ModelEnd::Dead(id)),
            (JobEnd::NotEnded { id, state }, _) => {
                assert_eq!(expected, ModelEnd::NotEnded(id, state));
            }
            (JobEnd::AlreadyGone, _) => assert_eq!(expected, ModelEnd::Gone),
            (end, _) => panic!("{end:?} instead of {expected:?}"),
        }
    }

    async fn change(&mut self, queue: usize, job: JobReference, change: JobChange) {
        let store = self.store();
        let changed = store
            .change(&self.queues[queue], job, change)
            .await
            .unwrap();
        self.note("change", &changed);
        match (changed, self.model.change(queue, job, change)) {
            (ChangeOutcome::Done(shown), Some(Ok(id))) => {
                let job = &self.model.jobs[&id];
                assert_eq!(shown.id, id);
                let (due_ms, expires_ms) = (shown.due_at_ms, shown.expires_at_ms);
                let expected = (job.version.due_ms, job.version.expires_ms);
                assert_eq!((shown.state, (due_ms, expires_ms)), (job.state, expected));
            }
            (ChangeOutcome::NotWaiting(state), Some(Err(expected))) => assert_eq!(state, expected),
            (ChangeOutcome::AlreadyGone, None) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn peek(&mut self, queue: usize, job: JobReference) {
        let store = self.store();
        let peeked = store.peek_job(&self.queues[queue], job).await.unwrap();
        let id = self.model.named(queue, job);
        let live = id.filter(|id| !self.model.jobs[id].is_expired(self.model.now_ms));
        assert_eq!(peeked.as_ref().map(|peeked| peeked.job.id), live);
        if let (Some(peeked), Some(id)) = (peeked, live) {
            let job = &self.model.jobs[&id];
            assert_eq!(
                (peeked.job.state, &peeked.job.body),
                (job.state, job.body())
            );
        }
    }
}
