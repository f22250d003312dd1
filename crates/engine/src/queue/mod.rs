//! Queues and the jobs in them: policies, lanes, lists, and verbs for jobs that no consumer holds.

pub(crate) mod act;
pub(crate) mod act_progress;
pub(crate) mod change_attempts;
pub(crate) mod directory;
pub(crate) mod job_filter;
pub(crate) mod job_list;
pub(crate) mod jobs;
pub(crate) mod lanes;
pub(crate) mod overview;
pub(crate) mod policies;
pub(crate) mod queue_list;
pub(crate) mod serve_loop;
pub(crate) mod table_reader;
pub(crate) mod whole_queue;
