//! A schedule of the namespace.

use std::time::Duration;

use hyper::Method;
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::schedule::{Schedule, ScheduleDetails, ScheduleRuns};
use tidegate_core::v1::values::{RunCount, ScheduleNameText, Timestamp};
use tidegate_core::v1::{DeleteAnswer, Precondition};
use tokio::time::sleep;

use crate::client::Client;
use crate::condition::{add_condition, repeat_safety};
use crate::error::{Error, RepeatSafety};
use crate::repeat::RepeatLimits;
use crate::transport::{HttpCall, HttpReply};

/// When a change is made again because other clients change the same schedule.
const CHANGE_LIMITS: RepeatLimits = RepeatLimits {
    repetitions: 19,
    first_delay: Duration::from_millis(5),
    longest_delay: Duration::from_millis(320),
};

/// A schedule of the namespace: it publishes a job again and again. Needs the scope `read`, and `admin` for changes.
#[derive(Debug, Clone)]
pub struct ScheduleHandle {
    client: Client,
    name: ScheduleNameText,
}

impl Client {
    /// The schedule with this name. No request is sent.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn schedule(&self, name: &str) -> Result<ScheduleHandle, Error> {
        Ok(ScheduleHandle {
            client: self.clone(),
            name: name.parse()?,
        })
    }
}

impl ScheduleHandle {
    /// The name of the schedule.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its settings, and its next run.
    ///
    /// # Errors
    /// The errors of requests: `schedule_not_found`.
    pub async fn show(&self) -> Result<ScheduleDetails, Error> {
        let call = HttpCall::get(self.path(""));
        self.send(&call, RepeatSafety::Repeatable).await?.json()
    }

    /// The times of its next runs, the first one first, at most so many. None if it is paused or has ended.
    ///
    /// # Errors
    /// The errors of requests: `schedule_not_found`.
    pub async fn next_runs(&self, most: RunCount) -> Result<Vec<Timestamp>, Error> {
        let call = HttpCall::get(self.path(&format!("/next?count={}", most.get())));
        let answer: ScheduleRuns = self.send(&call, RepeatSafety::Repeatable).await?.json()?;
        Ok(answer.runs)
    }

    /// Creates the schedule, or replaces it as a whole. The queue of an existing schedule cannot be changed.
    ///
    /// # Errors
    /// The errors of requests. The field of an invalid request names what is not valid, such as `cron` or `time_zone`.
    pub async fn set(&self, config: &Schedule) -> Result<ScheduleDetails, Error> {
        self.set_if(Precondition::None, config).await
    }

    /// The same if the schedule is as the condition requires.
    ///
    /// # Errors
    /// The errors of requests; `version_mismatch` if it is not.
    pub async fn set_if(
        &self,
        condition: Precondition<&str>,
        config: &Schedule,
    ) -> Result<ScheduleDetails, Error> {
        let mut call = HttpCall::json(Method::PUT, self.path(""), config)?;
        add_condition(&mut call, condition)?;
        self.send(&call, repeat_safety(condition)).await?.json()
    }

    /// Pauses the schedule, or resumes it; the rest of it stays as it is, also if other clients change it at the same
    /// time. Runs of a pause are not caught up.
    ///
    /// # Errors
    /// The errors of requests: `schedule_not_found`; `version_mismatch` if other clients change it all the time.
    pub async fn set_paused(&self, paused: bool) -> Result<ScheduleDetails, Error> {
        let mut delays = CHANGE_LIMITS.delays();
        loop {
            let mut shown = self.show().await?;
            if shown.config.paused == paused {
                return Ok(shown);
            }
            shown.config.paused = paused;
            let condition = Precondition::Is(shown.revision.as_str());
            match self.set_if(condition, &shown.config).await {
                Err(error) if error.code() == Some(ProblemCode::VersionMismatch) => {
                    match delays.next_after(&error) {
                        Some(delay) => sleep(delay).await,
                        None => return Err(error),
                    }
                }
                other => return other,
            }
        }
    }

    /// Deletes the schedule. Jobs that it has published stay.
    ///
    /// # Errors
    /// The errors of requests; `schedule_not_found` if there is none, also after a repetition of a request whose answer
    /// was lost.
    pub async fn delete(&self) -> Result<DeleteAnswer, Error> {
        self.delete_if(Precondition::None).await
    }

    /// The same if the schedule is as the condition requires.
    ///
    /// # Errors
    /// The errors of requests; `version_mismatch` if it is not.
    pub async fn delete_if(&self, condition: Precondition<&str>) -> Result<DeleteAnswer, Error> {
        let mut call = HttpCall::new(Method::DELETE, self.path(""));
        add_condition(&mut call, condition)?;
        self.send(&call, repeat_safety(condition)).await?.json()
    }

    fn path(&self, rest: &str) -> String {
        format!("/schedules/{}{rest}", self.name)
    }

    async fn send(&self, call: &HttpCall, safety: RepeatSafety) -> Result<HttpReply, Error> {
        self.client.transport.send_repeated(call, safety).await
    }
}
