//! Ticks of schedules, in the bucket of their queues: `schedule_set`, `schedule_due`, `schedule_publish`.

use std::time::Duration;

use tidegate_core::codec::{NewRecord, encode_new_job};
use tidegate_core::{IfExists, KeyHash, QueueKey};

use super::publish_reply::read_outcome;
use super::schedule_ticks::{
    PublishedTicks, SCHEDULES_DUE_MAX, ScheduleTick, SchedulesDue, TickOutcome, TickPublish,
    read_tick,
};
use crate::error::StoreError;
use crate::schedules::ScheduleDefinition;
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::table::{NamespacedName, TableRevision};

static SCHEDULE_SET: LazyScript = script!("schedule_set");
static SCHEDULE_DUE: LazyScript = script!("schedule_due");
static SCHEDULE_PUBLISH: LazyScript = script!("schedule_publish");

/// A call publishes jobs with payloads of at most about so many bytes, unless there is one only.
const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// The outcome of the script for a tick that has changed.
const MOVED: u64 = 11;

/// When a pump looks at a schedule whose revision the bucket does not know, in ms: a change takes less time.
const CHECK_MS: u64 = 10_000;

/// Namespace and name, as scripts get them.
fn parts(key: &NamespacedName) -> (&[u8], &[u8]) {
    (key.namespace.as_str().as_bytes(), key.name.as_bytes())
}

/// The key of names as they are in a bucket; `None` if they are none.
fn read_key(namespace: &[u8], name: &[u8]) -> Option<NamespacedName> {
    let text = [namespace, b"/", name].concat();
    NamespacedName::try_from(str::from_utf8(&text).ok()?).ok()
}

impl Store {
    /// Makes a pump look at a schedule within 10 s, unless it does so earlier.
    pub(crate) async fn schedule_check(
        &self,
        key: &NamespacedName,
        queue: &QueueKey,
    ) -> Result<(), StoreError> {
        self.schedule_check_in(self.bucket_of(queue), key).await
    }

    /// The same for the bucket of the queue.
    pub(crate) async fn schedule_check_in(
        &self,
        bucket: u16,
        key: &NamespacedName,
    ) -> Result<(), StoreError> {
        let none = TableRevision::default();
        let rule = ("", String::new(), None);
        let call = self.set_tick_in(bucket, parts(key), none, rule, None, CHECK_MS);
        call.await.map(drop)
    }

    /// Sets the tick of a schedule: the first one from now on, or the stored one if that was calculated with the same
    /// rule. Only if the bucket knows this revision: empty = it must know none. `None` = unless it knows a later one.
    /// Returns whether it is set.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn schedule_set(
        &self,
        key: &NamespacedName,
        queue: &QueueKey,
        definition: &ScheduleDefinition,
        revision: TableRevision,
        known: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let now_ms = self.schedule_now_ms(queue).await?;
        // A rule that cannot be read has no ticks.
        let tick_ms = definition.times.next_after(now_ms).ok().flatten();
        let text = revision.to_string();
        let rule = (text.as_str(), definition.rule_text(), tick_ms);
        self.set_tick(key, queue, revision, rule, known).await
    }

    /// Removes the tick of a schedule that had this revision, unless the bucket knows a later one.
    pub(crate) async fn schedule_remove(
        &self,
        key: &NamespacedName,
        queue: &QueueKey,
        revision: TableRevision,
    ) -> Result<bool, StoreError> {
        let rule = ("removed", String::new(), None);
        self.set_tick(key, queue, revision, rule, None).await
    }

    /// Removes the tick of a schedule that the table does not have, if the bucket knows this revision.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn schedule_forget(
        &self,
        bucket: u16,
        tick: &ScheduleTick,
    ) -> Result<(), StoreError> {
        self.change_tick(bucket, tick, "removed", CHECK_MS).await
    }

    /// Makes a pump look at a schedule again after this time, if the bucket knows this revision. Its tick stays.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn schedule_defer(
        &self,
        bucket: u16,
        tick: &ScheduleTick,
        pause: Duration,
    ) -> Result<(), StoreError> {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(CHECK_MS);
        self.change_tick(bucket, tick, "deferred", pause_ms).await
    }

    /// Changes a tick as this word says, if the bucket knows its revision.
    async fn change_tick(
        &self,
        bucket: u16,
        tick: &ScheduleTick,
        word: &str,
        check_ms: u64,
    ) -> Result<(), StoreError> {
        let rule = (word, String::new(), None);
        let none = TableRevision::default();
        let known = Some(tick.revision.as_slice());
        let call = self.set_tick_in(bucket, parts(&tick.key), none, rule, known, check_ms);
        call.await.map(drop)
    }

    async fn set_tick(
        &self,
        key: &NamespacedName,
        queue: &QueueKey,
        revision: TableRevision,
        rule: (&str, String, Option<u64>),
        known: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let bucket = self.bucket_of(queue);
        self.set_tick_in(bucket, parts(key), revision, rule, known, CHECK_MS)
            .await
    }

    async fn set_tick_in(
        &self,
        bucket: u16,
        (namespace, name): (&[u8], &[u8]),
        revision: TableRevision,
        (text, rule, tick_ms): (&str, String, Option<u64>),
        known: Option<&[u8]>,
        check_ms: u64,
    ) -> Result<bool, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call_on_bucket(&SCHEDULE_SET, keys.schedules(), keys)
            .arg(namespace)
            .arg(name)
            .arg(text)
            .arg(revision.number)
            .arg(rule)
            .arg(tick_ms.map_or_else(String::new, |ms| ms.to_string()))
            .arg(check_ms)
            .arg(known.unwrap_or(b"*"));
        call.send().await?.ok()?.flag()
    }

    /// The time on the clock of the server of a queue, in ms since 1970.
    pub(crate) async fn schedule_now_ms(&self, queue: &QueueKey) -> Result<u64, StoreError> {
        self.bucket_now_ms(self.bucket_of(queue)).await
    }

    /// The time on the clock of the server of a bucket, in ms since 1970.
    pub(crate) async fn bucket_now_ms(&self, bucket: u16) -> Result<u64, StoreError> {
        match self.now_ms {
            Some(now_ms) => Ok(now_ms),
            None => self.server_now_ms(&self.keys(bucket).schedules()).await,
        }
    }

    /// The schedules of a bucket whose ticks are due, at most `limit` of them.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn schedules_due(
        &self,
        bucket: u16,
        token: &str,
        limit: u64,
    ) -> Result<SchedulesDue, StoreError> {
        let call = self
            .call_on_lock(&SCHEDULE_DUE, bucket, token)
            .arg(limit.min(SCHEDULES_DUE_MAX));
        let mut reply = call.send().await?;
        if reply.token() == "lost" {
            return Ok(SchedulesDue::NotLeading);
        }
        reply = reply.ok()?;
        let (now_ms, next_in_ms) = (reply.count()?, reply.optional()?);
        let mut ticks = Vec::new();
        while reply.has_more() {
            let (namespace, name) = (reply.bytes()?, reply.bytes()?);
            let (revision, tick_ms) = (reply.bytes()?.to_vec(), read_tick(&reply.bytes()?));
            let Some(key) = read_key(&namespace, &name) else {
                // A damaged name must not keep the bucket from its other schedules.
                let (parts, none) = ((&*namespace, &*name), TableRevision::default());
                let rule = ("removed", String::new(), None);
                let drop = self.set_tick_in(bucket, parts, none, rule, Some(&revision), CHECK_MS);
                drop.await?;
                continue;
            };
            ticks.push(ScheduleTick {
                key,
                revision,
                tick_ms,
            });
        }
        Ok(SchedulesDue::Some {
            now_ms,
            next_in_ms,
            ticks,
        })
    }

    /// Publishes the jobs of ticks of a bucket, and sets the next ticks of their schedules, if the ticks are as they
    /// were read. Of each schedule there is one.
    ///
    /// # Errors
    /// A job is not valid, or Redis is unavailable; the call may have been executed. It is safe to repeat it: the ticks
    /// have moved then.
    pub async fn schedule_publish(
        &self,
        bucket: u16,
        ticks: &[TickPublish<'_>],
    ) -> Result<PublishedTicks, StoreError> {
        let jobs: Vec<_> = ticks
            .iter()
            .map(|it| self.tick_job(it))
            .collect::<Result<_, _>>()?;
        let mut published = PublishedTicks {
            outcomes: Vec::with_capacity(ticks.len()),
            more: false,
            next_in_ms: None,
        };
        let (mut first, mut bytes) = (0, 0);
        for (at, job) in jobs.iter().enumerate() {
            bytes += job.payload.len();
            let is_last = at + 1 == jobs.len();
            if is_last || bytes + jobs[at + 1].payload.len() > PAYLOAD_BYTES_MAX {
                let calls = ticks[first..=at].iter().zip(&jobs[first..=at]);
                self.publish_ticks(bucket, calls, &mut published).await?;
                (first, bytes) = (at + 1, 0);
            }
        }
        Ok(published)
    }

    /// One call of the script.
    async fn publish_ticks<'a>(
        &self,
        bucket: u16,
        ticks: impl Iterator<Item = (&'a TickPublish<'a>, &'a NewRecord)>,
        published: &mut PublishedTicks,
    ) -> Result<(), StoreError> {
        let text = |ms: Option<u64>| ms.map_or_else(String::new, |ms| ms.to_string());
        let keys = self.keys(bucket);
        let call = self.call_on_bucket(&SCHEDULE_PUBLISH, keys.queues(), keys);
        let mut call = call.of_pump();
        for (it, job) in ticks {
            let (namespace, name) = parts(&it.tick.key);
            let if_exists = it.definition.overlap.if_exists();
            let if_exists = if_exists.map_or("", IfExists::as_str);
            call = call
                .arg(namespace)
                .arg(name)
                .arg(it.tick.revision.as_slice())
                .arg(text(it.tick.tick_ms))
                .arg(text(it.next_ms))
                .arg(text(it.publish_ms))
                .arg(it.queue.queue.as_str())
                .arg(text(it.max_jobs))
                .arg(if_exists)
                .arg(&job.header)
                .arg(&job.payload);
        }
        let mut reply = call.send().await?.ok()?;
        (published.more, published.next_in_ms) = (reply.flag()?, reply.optional()?);
        while reply.has_more() {
            published.outcomes.push(match reply.count()? {
                0 => TickOutcome::LeftOut,
                MOVED => TickOutcome::Moved,
                outcome => TickOutcome::Published(read_outcome(outcome)?),
            });
        }
        Ok(())
    }

    /// The job of a tick, as it is stored.
    fn tick_job(&self, it: &TickPublish<'_>) -> Result<NewRecord, StoreError> {
        let job = it.job()?;
        let key = job.native.as_ref().and_then(|it| it.extension.key_hash);
        let nonce = key.map_or_else(rand::random, |hash| KeyHash(hash).nonce());
        let config = &self.inner.config;
        let (inline, compress_from) = (config.inline_limit_bytes, config.compress_from_bytes);
        Ok(encode_new_job(&job, nonce, inline, compress_from))
    }
}
