//! The scenarios. Each has a namespace of its own, and so any names of queues and keys.

mod errors;
mod jobs;
mod leases;
mod publishing;
mod queues;
mod repetitions;
mod stops;
mod workers;

use futures_util::future::LocalBoxFuture;

use crate::ground::OpenGround;

/// A scenario.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// Its name, a sentence.
    pub(crate) name: &'static str,
    pub(crate) run: fn(OpenGround) -> LocalBoxFuture<'static, ()>,
}

/// Lists functions as scenarios.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(super) fn scenarios() -> Vec<$crate::scenarios::Scenario> {
            vec![$($crate::scenarios::Scenario {
                name: stringify!($name),
                run: |ground| Box::pin($name(ground)),
            }),*]
        }
    };
}
use scenarios;

pub(crate) fn all() -> Vec<Scenario> {
    [
        publishing::scenarios(),
        errors::scenarios(),
        repetitions::scenarios(),
        jobs::scenarios(),
        queues::scenarios(),
        leases::scenarios(),
        workers::scenarios(),
        stops::scenarios(),
    ]
    .concat()
}
