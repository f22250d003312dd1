//! Futures that share a task with a busy future.
//!
//! A connection is polled several times per request. Events that end it from outside (a stop, a cut)
//! happen at most once in its life. A plain `select!` would poll their futures each time as well, and
//! each such poll takes locks that all connections share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Polls a future once at first, then only after its waker was called.
pub(crate) struct PollOnWake<F> {
    future: Pin<Box<F>>,
    flag: Arc<WakeFlag>,
}

struct WakeFlag {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl<F> PollOnWake<F> {
    pub(crate) fn new(future: F) -> Self {
        // The first poll registers the waker.
        let has_rung = AtomicBool::new(true);
        let task = AtomicWaker::new();
        Self {
            future: Box::pin(future),
            flag: Arc::new(WakeFlag {
                is_woken: has_rung,
                task,
            }),
        }
    }
}

impl<F: Future> Future for PollOnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Register before the check: a wake that comes after the check then reaches this task.
        self.flag.task.register(context.waker());
        if !self.flag.is_woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.flag.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.flag));
        let mut own = Context::from_waker(&waker);
        self.future.as_mut().poll(&mut own)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
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
        let mut aside = PollOnWake::new(poll_fn(move |context| {
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
