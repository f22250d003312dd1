//! Context of all rules.

use crate::oracle::excuses::Excuses;
use crate::oracle::queues::QueueRequests;

#[derive(Debug, Clone, Copy)]
pub(in crate::oracle) struct RuleContext<'a> {
    pub(in crate::oracle) excuses: &'a Excuses<'a>,
    pub(in crate::oracle) queues: &'a QueueRequests<'a>,
}
