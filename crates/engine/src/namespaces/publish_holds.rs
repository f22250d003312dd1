//! Namespaces that have no unit left for a publish.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Namespace;
use tokio::time::Instant;

/// Until when namespaces have no unit left. Publishes before are refused without a call to Redis, so that a namespace
/// at its limit costs the others nothing.
#[derive(Debug, Default)]
pub(crate) struct PublishHolds(Mutex<HashMap<Namespace, Instant>>);

impl PublishHolds {
    pub(super) fn left(&self, namespace: &Namespace) -> Option<Duration> {
        let holds = self.0.lock();
        let left = holds.get(namespace)?.checked_duration_since(Instant::now());
        left.filter(|left| !left.is_zero())
    }

    pub(super) fn set(&self, namespace: &Namespace, left: Duration) {
        let now = Instant::now();
        let mut holds = self.0.lock();
        holds.retain(|_, until| *until > now);
        holds.insert(namespace.clone(), now + left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hold_ends_and_is_forgotten() {
        let holds = PublishHolds::default();
        let [one, other] = ["one", "other"].map(|name| Namespace::try_from(name).unwrap());
        holds.set(&one, Duration::from_millis(10));
        assert_eq!(holds.left(&one), Some(Duration::from_millis(10)));
        assert_eq!(holds.left(&other), None);
        tokio::time::advance(Duration::from_millis(10)).await;
        assert_eq!(holds.left(&one), None);
        holds.set(&other, Duration::from_millis(10));
        assert_eq!(holds.0.lock().len(), 1);
    }
}
