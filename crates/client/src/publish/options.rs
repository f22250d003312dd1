//! The options of a publish, for single jobs and jobs of batches.

use std::time::Duration;

use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::JobOptions;
use tidegate_core::v1::retry::RetryChange;
use tidegate_core::v1::values::{MaxAttempts, MaxDeliveries, Priority, Timestamp};
use tidegate_core::{Durability, IfExists};

use super::batch_job::{BatchJob, RepeatableOptions, duration};
use super::single::Publish;

/// Defines the options for [`BatchJob`], and the same for [`Publish`], which has one inside.
macro_rules! publish_options {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) $body:expr;)*) => {
        impl BatchJob {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(self, $($argument: $kind),*) -> Self {
                self.set_option($body($($argument),*))
            })*
        }

        impl<T> Publish<T> {
            $($(#[$doc])*
            pub fn $name(self, $($argument: $kind),*) -> Self {
                self.with_job(|job| job.$name($($argument),*))
            })*
        }
    };
}

publish_options! {
    /// Delays the job. Excludes `run_at`. Rounded up to whole milliseconds.
    delay(delay: Duration) |delay| move |it: &mut JobOptions| {
        it.delay = Some(duration("delay", delay)?);
        Ok(())
    };
    /// Sets when the job is due: a [`Timestamp`] or a `SystemTime`. The past means now. Excludes `delay`.
    run_at(at: impl Into<Timestamp>) |at| move |it: &mut JobOptions| {
        it.run_at = Some(Into::<Timestamp>::into(at));
        Ok(())
    };
    /// Sets how early the job is delivered among the ready jobs of its queue, 0 to 4: 4 is first. Default: 0.
    priority(priority: u8) |priority| move |it: &mut JobOptions| {
        it.priority = Some(Priority::try_from(u64::from(priority))?);
        Ok(())
    };
    /// Sets the group, such as a tenant or a user: 1 to 128 bytes. Ready jobs of a priority are delivered group by group in
    /// turn, and the policy of the queue may limit how many jobs of each group run at a time.
    group(group: impl Into<String>) |group| move |it: &mut JobOptions| {
        it.group = Some(Into::<String>::into(group).try_into()?);
        Ok(())
    };
    /// Sets a key, which is unique in the queue: 1 to 255 bytes. The effect on a job that has it already is set with
    /// `if_exists`.
    key(key: impl Into<String>) |key| move |it: &mut JobOptions| {
        it.key = Some(Into::<String>::into(key).try_into()?);
        Ok(())
    };
    /// Sets what happens if a job has the key. Default: `Keep`.
    if_exists(if_exists: IfExists) |if_exists| move |it: &mut JobOptions| {
        it.if_exists = Some(if_exists);
        Ok(())
    };
    /// Sets how long the finished job stays with its key and its result, up to 7 days. Default: as in the policy of the
    /// queue.
    retain(retain: Duration) |retain| move |it: &mut JobOptions| {
        it.retain = Some(duration("retain", retain)?);
        Ok(())
    };
    /// Sets how long a worker may hold the job without extending its lease. Default: as in the policy of the queue.
    lease(lease: Duration) |lease| move |it: &mut JobOptions| {
        it.lease = Some(duration("lease", lease)?);
        Ok(())
    };
    /// Sets after how many failed attempts the job is dead, 1 to 4,095. Default: as in the policy of the queue.
    max_attempts(attempts: u16) |attempts| move |it: &mut JobOptions| {
        it.max_attempts = Some(MaxAttempts::try_from(u64::from(attempts))?);
        Ok(())
    };
    /// Sets when failed attempts are repeated. Default: as in the policy of the queue.
    retry(policy: RetryChange) |policy| move |it: &mut JobOptions| {
        it.retry = Some(policy);
        Ok(())
    };
    /// Drops the job if no worker has started it within this time after it was due.
    start_within(limit: Duration) |limit| move |it: &mut JobOptions| {
        it.start_within = Some(duration("start_within", limit)?);
        Ok(())
    };
    /// Sets how often the job is delivered at most, as for a job of lmstfy: the last delivery that is not acknowledged
    /// makes it dead. Excludes `max_attempts`, `retry` and `start_within`.
    max_deliveries(deliveries: u16) |deliveries| move |it: &mut JobOptions| {
        it.max_deliveries = Some(MaxDeliveries::try_from(u64::from(deliveries))?);
        Ok(())
    };
    /// Deletes the job so long after its publish, in any state but dead, as a job of lmstfy. Needs `max_deliveries`.
    ttl(ttl: Duration) |ttl| move |it: &mut JobOptions| {
        it.ttl = Some(duration("ttl", ttl)?);
        Ok(())
    };
    /// Sets what must have stored the job before the publish is answered. Default: as set for the namespace.
    durability(level: Durability) |level| move |it: &mut JobOptions| {
        it.durability = Some(level);
        Ok(())
    };
    /// Makes the publish safe to repeat: a random `Idempotency-Key` is sent, the same in each repetition. Then the
    /// client repeats the publish also if it does not know whether the first request arrived.
    idempotent() || |it: &mut JobOptions| it.make_idempotent();
}

impl BatchJob {
    /// Adds an attribute, which travels with the job. The name has 1 to 64 bytes of lower-case letters, digits, `-`,
    /// `_` and `.`; the value up to 1,024 bytes, without spaces at its ends.
    #[must_use]
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.set(|job| {
            if value.trim_ascii() != value {
                let detail = format!("the value of the attribute {name:?} has spaces at its ends");
                return Err(InvalidRequest::of_field("attributes", detail).into());
            }
            job.attributes.0.insert(name, value);
            Ok(job.attributes.check()?)
        })
    }
}

impl<T> Publish<T> {
    /// Adds an attribute, which travels with the job. The name has 1 to 64 bytes of lower-case letters, digits, `-`,
    /// `_` and `.`; the value up to 1,024 bytes, without spaces at its ends.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with_job(|job| job.attribute(name, value))
    }
}
