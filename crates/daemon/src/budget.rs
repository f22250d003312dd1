//! A byte budget that many requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bounds the memory of requests that are not answered yet, or of answers that clients have not read yet. Clones share
/// one budget.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<ByteBudgetState>);

#[derive(Debug)]
struct ByteBudgetState {
    max: usize,
    used: AtomicUsize,
}

/// The budget has too few bytes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes in flight")]
pub struct BudgetExhausted;

/// Bytes taken from a [`ByteBudget`]. Dropping the share returns them.
#[derive(Debug)]
pub struct ByteShare {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    /// Creates a budget of `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let used = AtomicUsize::new(0);
        Self(Arc::new(ByteBudgetState { max, used }))
    }

    /// Creates an empty share.
    #[must_use]
    pub fn share(&self) -> ByteShare {
        ByteShare {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Returns the number of bytes in all shares.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl ByteShare {
    /// Grows the share to `bytes`. Does nothing if it already has as many.
    ///
    /// # Errors
    /// The budget has too few bytes left. The share is unchanged.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return Ok(());
        };
        let ByteBudgetState { max, used } = &*self.budget.0;
        let within = |used: usize| used.checked_add(more).filter(|sum| sum <= max);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| BudgetExhausted)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Grows the share to `bytes`, even if the budget has too few left: others then find less.
    pub fn grow_beyond(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.budget.0.used.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }

    /// Returns everything above `bytes` to the budget.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.0.used.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_together_and_come_back() {
        let budget = ByteBudget::new(100);
        let (mut first, mut second) = (budget.share(), budget.share());
        first.grow_to(60).unwrap();
        assert_eq!(second.grow_to(41), Err(BudgetExhausted));
        second.grow_to(40).unwrap();
        assert_eq!(first.grow_to(61), Err(BudgetExhausted));
        first.grow_to(10).unwrap();
        assert_eq!(budget.used(), 100);
        first.shrink_to(70);
        first.shrink_to(50);
        assert_eq!(budget.used(), 90);
        drop(first);
        second.grow_beyond(130);
        assert_eq!(budget.used(), 130);
        second.grow_beyond(120);
        second.shrink_to(100);
        second.grow_to(100).unwrap();
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
