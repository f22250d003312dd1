//! Publishing the items of a batch to a queue that may hold a limited number of jobs: as many items as it has room for.

use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{PublishReply, StoreError};

use super::{JobsOfQueue, LanePublisher};

impl LanePublisher {
    /// Stores the jobs of items, each item as a whole or not at all, and returns the outcome of each. If there is no
    /// room for all of them, items are chosen in their order; an item that does not fit is skipped, and smaller items
    /// behind it are stored. After a call that failed, the outcome of the items that are not known to be stored is its
    /// error.
    pub(crate) async fn publish_items(
        &self,
        queue: &QueueKey,
        lane: u16,
        items: &[Vec<NewJob>],
        max_jobs: u64,
    ) -> Vec<Result<PublishReply, StoreError>> {
        let full = PublishReply::QueueFull { room: 0 };
        let mut outcomes = vec![Ok(full); items.len()];
        let sizes: Vec<usize> = items.iter().map(Vec::len).collect();
        let mut left: Vec<usize> = (0..items.len()).collect();
        let mut chosen = left.clone();
        // Each call stores items, or chooses fewer of them for the next one.
        while !chosen.is_empty() {
            let jobs: Vec<NewJob> = chosen.iter().flat_map(|at| items[*at].clone()).collect();
            let jobs = JobsOfQueue {
                queue,
                jobs: &jobs,
                replaces: None,
                max_jobs: Some(max_jobs),
            };
            match self.publish(lane, jobs).await {
                Ok(done @ PublishReply::Done { .. }) => {
                    let counts: Vec<usize> = chosen.iter().map(|at| sizes[*at]).collect();
                    for (at, reply) in chosen.iter().zip(done.split(&counts)) {
                        outcomes[*at] = Ok(reply);
                    }
                    left.retain(|at| !chosen.contains(at));
                    chosen.clone_from(&left);
                }
                Ok(PublishReply::QueueFull { room }) => chosen = fitting(&chosen, &sizes, room),
                Ok(_) => break,
                Err(error) => {
                    for at in &left {
                        outcomes[*at] = Err(error.clone());
                    }
                    break;
                }
            }
        }
        outcomes
    }
}

/// The items, in order, for whose jobs there is room.
fn fitting(items: &[usize], sizes: &[usize], mut room: u64) -> Vec<usize> {
    let mut fitting = Vec::new();
    for item in items {
        let jobs = sizes[*item] as u64;
        if jobs <= room {
            room -= jobs;
            fitting.push(*item);
        }
    }
    // Otherwise the same call would be made again.
    fitting.truncate(items.len().saturating_sub(1));
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_chosen_in_order_and_those_that_do_not_fit_are_skipped() {
        let sizes = [3, 5, 1, 2];
        assert_eq!(fitting(&[0, 1, 2, 3], &sizes, 6), [0, 2, 3]);
        assert_eq!(fitting(&[0, 1, 2, 3], &sizes, 4), [0, 2]);
        assert_eq!(fitting(&[0, 1, 2, 3], &sizes, 0), [0; 0]);
        assert_eq!(fitting(&[1, 3], &sizes, 1), [0; 0]);
    }

    #[test]
    fn fewer_items_are_chosen_each_time() {
        assert_eq!(fitting(&[0, 1], &[1, 1], 9), [0]);
        assert_eq!(fitting(&[1], &[1, 1], 9), [0; 0]);
    }
}
