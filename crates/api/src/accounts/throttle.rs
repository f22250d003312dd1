//! Slows down the guessing of passwords, for each address and account: other clients are not delayed.
//!
//! After a failed login the next one of the same source is checked [`FAILURE_DELAY`] later. Logins of a source that
//! wait are checked one after the other. A bounded number of them waits, so that they do not use up the connections of
//! the port; a login of a source without a failure never waits.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// The delay of the next login of a source after a failed one.
pub(super) const FAILURE_DELAY: Duration = Duration::from_millis(200);
/// The most logins of a source that wait at a time.
pub(super) const WAITING_OF_SOURCE_MAX: usize = 32;
/// The most logins of all sources that wait at a time: half of the connections of the port.
const WAITING_MAX: usize = 128;
/// How many logins are checked at a time.
const CHECKED_MAX: usize = 4;

/// Where logins come from that are delayed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LoginSource {
    address: IpAddr,
    /// `None` = the name of no account.
    account: Option<String>,
}

impl LoginSource {
    /// A client usually has all addresses of an IPv6 network of 64 bits.
    pub(super) fn new(address: IpAddr, account: Option<String>) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(whole) => {
                IpAddr::V6(Ipv6Addr::from_bits(whole.to_bits() & !u128::from(u64::MAX)))
            }
            v4 @ IpAddr::V4(_) => v4,
        };
        Self { address, account }
    }
}

/// [`WAITING_OF_SOURCE_MAX`] or [`WAITING_MAX`] is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyLogins;

/// The sources that have failed a moment ago.
pub(super) struct LoginThrottle {
    sources: Mutex<LoginSources>,
    waiting: Semaphore,
    checked: Semaphore,
}

struct LoginSources {
    by_source: HashMap<LoginSource, Arc<LoginSourceState>>,
    swept_at: Instant,
}

struct LoginSourceState {
    waiting: Semaphore,
    /// Held by the login that waits for the end of the delay; the others wait for it, in order of arrival.
    turn: tokio::sync::Mutex<()>,
    /// Held while a login is checked. The time of the last failed login.
    last_failed_at: Mutex<Option<Instant>>,
}

/// The result of a login.
enum LoginCheck<T> {
    Checked(Option<T>),
    /// It is not checked before this time.
    Delayed(Instant),
}

impl Default for LoginThrottle {
    fn default() -> Self {
        Self {
            sources: Mutex::new(LoginSources {
                by_source: HashMap::new(),
                swept_at: Instant::now(),
            }),
            waiting: Semaphore::new(WAITING_MAX),
            checked: Semaphore::new(CHECKED_MAX),
        }
    }
}

impl LoginThrottle {
    /// Calls `check` when a login of this source may be checked, on another thread. `None` is a failed login.
    ///
    /// # Errors
    /// Too many logins wait.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        source: &LoginSource,
        check: impl Fn() -> Option<T> + Clone + Send + 'static,
    ) -> Result<Option<T>, TooManyLogins> {
        let state = self.state_of(source);
        // Logins that wait come first.
        if !state.has_waiting()
            && let LoginCheck::Checked(found) = self.try_check(&state, check.clone()).await
        {
            return Ok(found);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| TooManyLogins)?;
        let _waiting_of_source = state.waiting.try_acquire().map_err(|_| TooManyLogins)?;
        let _turn = state.turn.lock().await;
        loop {
            match self.try_check(&state, check.clone()).await {
                LoginCheck::Checked(found) => return Ok(found),
                LoginCheck::Delayed(until) => sleep_until(until).await,
            }
        }
    }

    async fn try_check<T: Send + 'static>(
        &self,
        state: &Arc<LoginSourceState>,
        check: impl Fn() -> Option<T> + Send + 'static,
    ) -> LoginCheck<T> {
        if let Some(end) = state.delay_end() {
            return LoginCheck::Delayed(end);
        }
        let _permit = self.checked.acquire().await;
        let state = Arc::clone(state);
        let checking = spawn_blocking(move || state.check_now(check));
        // A panic is not a valid login.
        checking.await.unwrap_or(LoginCheck::Checked(None))
    }

    fn state_of(&self, source: &LoginSource) -> Arc<LoginSourceState> {
        let mut sources = self.sources.lock();
        if sources.swept_at.elapsed() >= FAILURE_DELAY {
            sources.swept_at = Instant::now();
            let in_use = |state: &Arc<LoginSourceState>| {
                Arc::strong_count(state) > 1 || state.delay_end().is_some()
            };
            sources.by_source.retain(|_, state| in_use(state));
        }
        match sources.by_source.get(source) {
            Some(state) => Arc::clone(state),
            None => {
                let state = Arc::new(LoginSourceState::default());
                let made = Arc::clone(&state);
                sources.by_source.insert(source.clone(), made);
                state
            }
        }
    }
}

impl Default for LoginSourceState {
    fn default() -> Self {
        Self {
            waiting: Semaphore::new(WAITING_OF_SOURCE_MAX),
            turn: tokio::sync::Mutex::default(),
            last_failed_at: Mutex::default(),
        }
    }
}

impl LoginSourceState {
    fn has_waiting(&self) -> bool {
        self.waiting.available_permits() < WAITING_OF_SOURCE_MAX
    }

    /// The end of the delay after a failed login, if it is to come.
    fn delay_end(&self) -> Option<Instant> {
        delay_end(*self.last_failed_at.lock())
    }

    fn check_now<T>(&self, check: impl Fn() -> Option<T>) -> LoginCheck<T> {
        let mut last_failed_at = self.last_failed_at.lock();
        if let Some(end) = delay_end(*last_failed_at) {
            return LoginCheck::Delayed(end);
        }
        let found = check();
        if found.is_none() {
            *last_failed_at = Some(Instant::now());
        }
        LoginCheck::Checked(found)
    }
}

fn delay_end(last_failed_at: Option<Instant>) -> Option<Instant> {
    let end = last_failed_at? + FAILURE_DELAY;
    (end > Instant::now()).then_some(end)
}
