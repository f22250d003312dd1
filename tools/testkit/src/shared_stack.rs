//! A stack that several tests of one test binary share.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::stack::{Stack, StackBuilder};

/// A stack that exists while at least one test uses it. A plain `static` would never be dropped,
/// and would leave its folders behind.
#[derive(Debug)]
pub struct SharedStack {
    builder: fn() -> StackBuilder,
    running: Mutex<Weak<Stack>>,
}

/// A reference to the shared stack, held by one test.
#[derive(Debug)]
pub struct SharedStackGuard(Arc<Stack>);

impl SharedStack {
    /// Creates a shared stack that `builder` describes. Starts nothing yet.
    #[must_use]
    pub const fn new(builder: fn() -> StackBuilder) -> Self {
        Self {
            builder,
            running: Mutex::const_new(Weak::new()),
        }
    }

    /// Returns the stack that other tests are using, or starts a new one.
    pub async fn acquire(&self) -> SharedStackGuard {
        let mut running = self.running.lock().await;
        if let Some(stack) = running.upgrade() {
            return SharedStackGuard(stack);
        }
        let stack = Arc::new((self.builder)().start().await);
        *running = Arc::downgrade(&stack);
        SharedStackGuard(stack)
    }
}

impl Deref for SharedStackGuard {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.0
    }
}

impl Drop for SharedStackGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.keep();
        }
    }
}
