use tidegate_core::Lane;

use super::list_jobs::JobSelection;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static LIST_DONE: LazyScript = script!("list_done");

impl Store {
    /// The call that lists jobs that are done; their results are not read.
    pub(super) fn list_done(
        &self,
        lane: Lane<'_>,
        selection: &JobSelection,
        place: &str,
        records: usize,
    ) -> Call<'_> {
        self.call_on_queue(&LIST_DONE, lane.queue, self.bucket_of(lane))
            .arg(place)
            .arg(records)
            .arg(selection.from_ms)
            .arg(selection.before_ms)
            .arg(u8::from(selection.with_failures))
    }
}
