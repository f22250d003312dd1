//! One stack for several tests of a test binary.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::stack::{Stack, StackBuilder};

/// A stack that lasts as long as some test uses it. A plain `static` would never be dropped, and so
/// leave its folders behind.
#[derive(Debug)]
pub struct SharedStack {
    builder: fn() -> StackBuilder,
    running: Mutex<Weak<Stack>>,
}

/// A stack lent to one test.
#[derive(Debug)]
pub struct Lent(Arc<Stack>);

impl SharedStack {
    /// A stack that `builder` describes; nothing is started yet.
    #[must_use]
    pub const fn new(builder: fn() -> StackBuilder) -> Self {
        Self {
            builder,
            running: Mutex::const_new(Weak::new()),
        }
    }

    /// The stack that other tests use now, else a new one.
    pub async fn lend(&self) -> Lent {
        let mut running = self.running.lock().await;
        if let Some(stack) = running.upgrade() {
            return Lent(stack);
        }
        let stack = Arc::new((self.builder)().start().await);
        *running = Arc::downgrade(&stack);
        Lent(stack)
    }
}

impl Deref for Lent {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.keep();
        }
    }
}
