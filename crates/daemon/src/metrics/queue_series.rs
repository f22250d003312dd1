//! Series of queues: their labels, and the bound on how many queues have their own.

use std::cmp::Reverse;

use tidegate_core::{JobId, QueueKey};

/// The labels `namespace` and `queue` of all names beyond the limit, and of queues for replies. Publishes reject queue
/// names that begin with `_`.
pub const OTHER: &str = "_other";

/// The names of the labels of a queue.
pub const OF_QUEUE: [&str; 3] = ["pool", "namespace", "queue"];

/// Figures of queues; without a name, of all queues beyond the limit together.
pub type QueueRows<T> = Vec<(Option<QueueKey>, T)>;

/// Whether a queue may have series of its own. One with the id of a job as its name is for the reply to that job: it is
/// used once, and each would take the place of a queue that stays.
#[must_use]
pub fn may_have_series(queue: &QueueKey) -> bool {
    let name = queue.queue.as_str();
    // The wire of lmstfy writes a 1 in front of ids of jobs with attributes.
    let versioned = name.strip_prefix('1').map(JobId::try_from);
    JobId::try_from(name).is_err() && !matches!(versioned, Some(Ok(_)))
}

/// The labels of a queue, or of all queues beyond the limit.
fn queue_labels<'a>(pool: &'a str, queue: Option<&'a QueueKey>) -> [&'a str; 3] {
    let (namespace, queue) = match queue {
        Some(key) => (key.namespace.as_str(), key.queue.as_str()),
        None => (OTHER, OTHER),
    };
    [pool, namespace, queue]
}

/// The rows of the `names_max` queues with the highest `rank` that may have their own, and one of the others.
pub fn queue_rows<T, R: Ord>(
    mut queues: Vec<(QueueKey, T)>,
    names_max: usize,
    rank: impl Fn(&T) -> R,
    together: impl Fn(T, T) -> T,
) -> QueueRows<T> {
    queues.sort_by(|(one, of_one), (other, of_other)| {
        let place = |queue, figures| (!may_have_series(queue), Reverse(rank(figures)));
        (place(one, of_one), one).cmp(&(place(other, of_other), other))
    });
    let named = queues.partition_point(|(queue, _)| may_have_series(queue));
    let others = queues.split_off(names_max.min(named));
    let others = others.into_iter().map(|(_, figures)| figures);
    let known = queues
        .into_iter()
        .map(|(queue, figures)| (Some(queue), figures));
    let rest = others.reduce(together).map(|figures| (None, figures));
    known.chain(rest).collect()
}

/// The labels of each row of a pool, with its figures.
pub fn labeled_rows<'a, T>(
    pool: &'a str,
    rows: &'a QueueRows<T>,
) -> impl Iterator<Item = ([&'a str; 3], &'a T)> {
    let rows = rows.iter();
    rows.map(move |(queue, figures)| (queue_labels(pool, queue.as_ref()), figures))
}

#[cfg(test)]
mod tests {
    use std::ops::Add;

    use super::*;

    const ID: &str = "01M8J7J6E703H000001X142FCG";

    fn key(name: &str) -> QueueKey {
        QueueKey::try_from(format!("shop/{name}").as_str()).unwrap()
    }

    #[test]
    fn queues_for_replies_have_no_series() {
        for (name, expected) in [("emails", true), (ID, false), (&*format!("1{ID}"), false)] {
            assert_eq!(may_have_series(&key(name)), expected, "{name}");
        }
    }

    #[test]
    fn the_largest_queues_have_own_rows_and_the_others_share_one() {
        let queues = [
            (ID, 20),
            ("small", 1),
            ("big", 9),
            ("empty", 0),
            ("middle", 5),
        ];
        let queues = queues.map(|(name, jobs)| (key(name), jobs));
        let rows = queue_rows(queues.into(), 2, |jobs| *jobs, u64::add);
        let labels: Vec<_> = labeled_rows("p", &rows).collect();
        assert_eq!(
            labels,
            [
                (["p", "shop", "big"], &9),
                (["p", "shop", "middle"], &5),
                (["p", OTHER, OTHER], &21),
            ]
        );
    }
}
