//! Functions that handle jobs.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use super::data::RequiredData;
use super::fail::{Fail, FailError};
use super::from_job::FromJob;
use super::job::Job;
use super::reply::JobReply;
use crate::error::BoxError;
use crate::task::Task;

/// An async function with a task and up to three other arguments, each a [`FromJob`], that returns
/// `Result<Task::Reply, Fail>`.
pub trait Handler<Arguments>: Send + Sync + 'static {
    /// The tasks that it handles.
    type Task: Task;

    /// Runs the function.
    fn call(
        &self,
        task: Self::Task,
        job: &Job,
    ) -> BoxFuture<'static, Result<<Self::Task as Task>::Reply, Fail>>;

    /// The data that its arguments need.
    fn required_data() -> Vec<RequiredData>;
}

/// An async function with a [`Job`] and up to three other arguments, each a [`FromJob`], that returns
/// `Result<R, Fail>`, with `R` being `()`, `Vec<u8>` or [`JobReply`].
pub trait RawHandler<Arguments>: Send + Sync + 'static {
    /// Runs the function.
    fn call(&self, job: Job) -> BoxFuture<'static, Result<JobReply, Fail>>;

    /// The data that its arguments need.
    fn required_data() -> Vec<RequiredData>;
}

macro_rules! handlers {
    ($($argument:ident),*) => {
        impl<F, Answer, T, $($argument),*> Handler<(T, $($argument,)*)> for F
        where
            F: Fn(T, $($argument),*) -> Answer + Send + Sync + 'static,
            Answer: Future<Output = Result<T::Reply, Fail>> + Send + 'static,
            T: Task,
            $($argument: FromJob,)*
        {
            type Task = T;

            #[allow(unused_variables, reason = "a function without other arguments needs nothing of the job")]
            fn call(&self, task: T, job: &Job) -> BoxFuture<'static, Result<T::Reply, Fail>> {
                Box::pin(self(task, $(match $argument::from_job(job) {
                    Ok(argument) => argument,
                    Err(missing) => return ready(Err(Fail::retry(missing))).boxed(),
                }),*))
            }

            fn required_data() -> Vec<RequiredData> {
                let required: Vec<Option<RequiredData>> = vec![$($argument::required_data()),*];
                required.into_iter().flatten().collect()
            }
        }

        impl<F, Answer, R, $($argument),*> RawHandler<(R, $($argument,)*)> for F
        where
            F: Fn(Job, $($argument),*) -> Answer + Send + Sync + 'static,
            Answer: Future<Output = Result<R, Fail>> + Send + 'static,
            R: Into<JobReply> + 'static,
            $($argument: FromJob,)*
        {
            fn call(&self, job: Job) -> BoxFuture<'static, Result<JobReply, Fail>> {
                let answer = self(job.clone(), $(match $argument::from_job(&job) {
                    Ok(argument) => argument,
                    Err(missing) => return ready(Err(Fail::retry(missing))).boxed(),
                }),*);
                Box::pin(async move { Ok(answer.await?.into()) })
            }

            fn required_data() -> Vec<RequiredData> {
                let required: Vec<Option<RequiredData>> = vec![$($argument::required_data()),*];
                required.into_iter().flatten().collect()
            }
        }
    };
}

handlers!();
handlers!(A);
handlers!(A, B);
handlers!(A, B, C);

/// A handler of any type, with the payload still encoded.
pub(super) type QueueHandler =
    Arc<dyn Fn(Job) -> BoxFuture<'static, Result<JobReply, BoxError>> + Send + Sync>;

fn failed(fail: Fail) -> BoxError {
    Box::new(FailError(fail))
}

pub(super) fn typed<A, H: Handler<A>>(handler: H) -> QueueHandler {
    Arc::new(move |job| {
        let task = match job.json::<H::Task>() {
            Ok(task) => task,
            Err(error) => {
                let text = format!(
                    "the payload is not a task of the queue {}: {error}",
                    job.queue()
                );
                return ready(Err(failed(Fail::dead(text)))).boxed();
            }
        };
        let answer = handler.call(task, &job);
        Box::pin(async move {
            let reply = answer.await.map_err(failed)?;
            JobReply::json(&reply).map_err(failed)
        })
    })
}

pub(super) fn raw<A, H: RawHandler<A>>(handler: H) -> QueueHandler {
    Arc::new(move |job| {
        let answer = handler.call(job);
        Box::pin(async move { answer.await.map_err(failed) })
    })
}
