//! Who may use the admin port: names and passwords, over HTTP basic auth.
//!
//! Logins are checked one after the other, and the next one waits for a second after one that failed, from whatever
//! address: a password a second can be tried, however many connections and addresses are used. [`WAITING_MAX`] logins
//! wait, further ones are answered 429, so that they do not fill the port. A request without credentials is not a login:
//! it is answered at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;
use tidegate_service::Peer;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::config::Password;

const CHALLENGE: &str = "Basic realm=\"Authorization Required\"";

/// How long the next login waits after one that failed.
const FAILURE_DELAY: Duration = Duration::from_secs(1);
/// Logins that wait for their turn.
const WAITING_MAX: usize = 16;

const CROWDED: &str = "too many logins wait because others have failed, please retry later\n";

/// Name and password with a colon between them, as they come over the wire.
type Credentials = Box<[u8]>;

/// The accounts of administrators, which may change. Without any the port is open. Clones share them.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<Inner>);

struct Inner {
    credentials: ArcSwap<Vec<Credentials>>,
    waiting: Semaphore,
    /// Who has it checks a login. When the last one failed, if one did.
    turn: Mutex<Option<Instant>>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Admitted,
    Refused,
    /// Too many logins wait.
    Crowded,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Accounts({})", self.0.credentials.load().len())
    }
}

impl Accounts {
    pub(crate) fn new(accounts: &BTreeMap<String, Password>) -> Self {
        Self(Arc::new(Inner {
            credentials: ArcSwap::from_pointee(credentials(accounts)),
            waiting: Semaphore::new(WAITING_MAX),
            turn: Mutex::default(),
        }))
    }

    /// Has these accounts hold from now on, and no others.
    pub(crate) fn replace(&self, accounts: &BTreeMap<String, Password>) {
        self.0.credentials.store(Arc::new(credentials(accounts)));
    }

    /// Whether a request may pass. Waits for its turn, and where the login before it has failed.
    async fn admit(&self, headers: &HeaderMap, peer: Option<Peer>) -> Admission {
        if self.0.credentials.load().is_empty() {
            return Admission::Admitted;
        }
        let Some(presented) = presented(headers) else {
            return Admission::Refused;
        };
        let Ok(_waiting) = self.0.waiting.try_acquire() else {
            return Admission::Crowded;
        };
        let mut last_failed_at = self.0.turn.lock().await;
        if let Some(failed_at) = *last_failed_at {
            sleep_until(failed_at + FAILURE_DELAY).await;
        }
        if self.is_known(&presented) {
            return Admission::Admitted;
        }
        *last_failed_at = Some(Instant::now());
        let account = self.account_of(&presented);
        let account = account.as_deref().unwrap_or("unknown");
        let peer = peer.map(|peer| peer.address.to_string());
        let peer = peer.unwrap_or_default();
        tracing::warn!(peer, account, "failed login at the admin port");
        Admission::Refused
    }

    fn is_known(&self, presented: &[u8]) -> bool {
        // All accounts are looked at, whichever it is.
        let mut is_known = false;
        for account in self.0.credentials.load().iter() {
            // In constant time: no part of a password can be found by measuring.
            is_known |= bool::from(presented.ct_eq(account));
        }
        is_known
    }

    /// The name of the account of a login, if there is such an account. Other names are not logged: they may be
    /// passwords in the wrong place.
    fn account_of(&self, presented: &[u8]) -> Option<String> {
        let name = name_of(presented)?;
        let accounts = self.0.credentials.load();
        let is_account = accounts
            .iter()
            .any(|account| name_of(account) == Some(name));
        is_account.then(|| String::from_utf8_lossy(name).into_owned())
    }
}

fn name_of(credentials: &[u8]) -> Option<&[u8]> {
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    credentials.get(..colon)
}

fn credentials(accounts: &BTreeMap<String, Password>) -> Vec<Credentials> {
    let credentials = accounts.iter().map(|(name, password)| {
        let text = format!("{name}:{}", password.text());
        text.into_bytes().into_boxed_slice()
    });
    credentials.collect()
}

/// What a route does for those who are let in.
pub(super) async fn guard(
    State(accounts): State<Accounts>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let peer = request.extensions().get::<Peer>().cloned();
    match accounts.admit(request.headers(), peer).await {
        Admission::Admitted => next.run(request).await,
        Admission::Refused => {
            let challenge = [(header::WWW_AUTHENTICATE, CHALLENGE)];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        Admission::Crowded => {
            let after = [(header::RETRY_AFTER, "1")];
            (StatusCode::TOO_MANY_REQUESTS, after, CROWDED).into_response()
        }
    }
}

/// What came with a request.
fn presented(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    STANDARD.decode(credentials.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let password = Password::from("secret".to_owned());
        Accounts::new(&BTreeMap::from([("ops".to_owned(), password)]))
    }

    async fn admitted(accounts: &Accounts, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        accounts.admit(&headers, None).await == Admission::Admitted
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_and_nonsense_are_no_account() {
        let accounts = accounts();
        let before = Instant::now();
        let nothing = HeaderMap::new();
        assert_eq!(accounts.admit(&nothing, None).await, Admission::Refused);
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert!(admitted(&accounts, &basic("ops:secret").replace("Basic", "basic")).await);
        assert_eq!(before.elapsed(), Duration::ZERO);
        for wrong in [
            "ops:",
            "ops:secre",
            "ops:secrets",
            "op:secret",
            "ops:secret\0",
        ] {
            assert!(!admitted(&accounts, &basic(wrong)).await, "{wrong}");
        }
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic %%%",
            "Bearer b3BzOnNlY3JldA==",
        ] {
            assert!(!admitted(&accounts, value).await, "{value}");
        }
        assert_eq!(format!("{accounts:?}"), "Accounts(1)");
        accounts.replace(&BTreeMap::new());
        assert_eq!(accounts.admit(&nothing, None).await, Admission::Admitted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_login_delays_the_next_by_a_second() {
        let accounts = accounts();
        let began_at = Instant::now();
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert!(!admitted(&accounts, &basic("ops:wrong")).await);
        assert_eq!(began_at.elapsed(), Duration::ZERO);
        let nothing = HeaderMap::new();
        assert_eq!(accounts.admit(&nothing, None).await, Admission::Refused);
        assert_eq!(began_at.elapsed(), Duration::ZERO);
        assert!(admitted(&accounts, &basic("ops:secret")).await);
        assert_eq!(began_at.elapsed(), FAILURE_DELAY);
    }

    /// Those that wait are not checked at the same moment, and a client that leaves gains nothing.
    #[tokio::test(start_paused = true)]
    async fn however_many_connections_there_are_one_password_a_second_is_tried() {
        let accounts = accounts();
        assert!(!admitted(&accounts, &basic("ops:wrong")).await);
        let began_at = Instant::now();
        let impatient = Duration::from_millis(1);
        let secret = basic("ops:secret");
        let left = tokio::time::timeout(impatient, admitted(&accounts, &secret)).await;
        assert!(left.is_err());
        let try_one = |number: usize| {
            let (accounts, credentials) = (accounts.clone(), basic(&format!("ops:{number}")));
            tokio::spawn(async move {
                let mut headers = HeaderMap::new();
                headers.insert(header::AUTHORIZATION, credentials.parse().unwrap());
                accounts.admit(&headers, None).await
            })
        };
        let tries: Vec<_> = (0..3 * WAITING_MAX).map(try_one).collect();
        let mut crowded = 0;
        for one in tries {
            crowded += usize::from(one.await.unwrap() == Admission::Crowded);
        }
        assert_eq!(crowded, 2 * WAITING_MAX);
        let seconds = u32::try_from(WAITING_MAX).unwrap();
        assert_eq!(began_at.elapsed(), FAILURE_DELAY * seconds);
    }

    #[test]
    fn only_names_of_accounts_are_logged() {
        let accounts = accounts();
        assert_eq!(accounts.account_of(b"ops:x").as_deref(), Some("ops"));
        assert_eq!(accounts.account_of(b"secret:x"), None);
        assert_eq!(accounts.account_of(b"secret"), None);
    }
}
