//! Futures that stand beside a busy one in the same task.
//!
//! A connection is polled several times a request. Whatever may end it from outside happens once in its
//! life at most, and yet a `select!` would poll that as often, each time through locks that all
//! connections share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Polls a future only after that has asked for it.
pub(crate) struct Aside<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
}

struct Bell {
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl<F> Aside<F> {
    pub(crate) fn new(future: F) -> Self {
        let bell = Bell {
            // The first poll is owed to every future.
            has_rung: AtomicBool::new(true),
            task: AtomicWaker::new(),
        };
        Self {
            future: Box::pin(future),
            bell: Arc::new(bell),
        }
    }
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // In this order: who rings after the look finds the task that is to be woken.
        self.bell.task.register(context.waker());
        if !self.bell.has_rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.bell.has_rung.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut own = Context::from_waker(&waker);
        self.future.as_mut().poll(&mut own)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::future::poll_fn;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_polled_at_first_and_when_it_has_asked_for_it() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = oneshot::channel();
        let counted = Arc::clone(&polls);
        let mut aside = Aside::new(poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut receiver).poll(context)
        }));
        for _ in 0..3 {
            assert!(futures_util::poll!(&mut aside).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        let waiting = tokio::spawn(aside);
        tokio::task::yield_now().await;
        sender.send(7).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(7));
        assert_eq!(polls.load(Ordering::Relaxed), 2);
    }
}
