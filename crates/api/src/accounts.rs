//! The accounts of the admin port, for HTTP basic authentication, and what each may do.
//!
//! After a failed login the next one is checked a second later. So clients can try one password a second, however many
//! connections and addresses they use. At most [`WAITING_MAX`] logins wait for that at a time, and are checked one after
//! the other; further ones are answered 429, so that they do not use up the connections of the port. Logins are checked at
//! once while none waits. A request without credentials is not a login and is answered 401 at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Extension;
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

use crate::config::{AccountRole, Password};

const CHALLENGE: &str = "Basic realm=\"Authorization Required\"";

/// The delay of the next login after a failed one.
const FAILURE_DELAY: Duration = Duration::from_secs(1);
/// The most logins that wait at a time.
const WAITING_MAX: usize = 16;

const NOT_ADMIN: &str =
    "403 forbidden: this needs an account with the role admin; others may use /ui only\n";
const CROWDED: &str = "too many logins are waiting after a failed one, please retry later\n";

/// Name and password, separated by a colon, as in HTTP basic authentication.
type Credentials = Box<[u8]>;

/// The accounts of the admin port. They can be replaced while the daemon runs, and clones share them. Without accounts
/// no credentials are required.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<AccountsInner>);

struct AccountsInner {
    known: ArcSwap<KnownAccounts>,
    waiting: Semaphore,
    /// Held by the login that waits for the end of the delay; the others wait for it, in order of arrival.
    turn: Mutex<()>,
    /// Held while a login is checked. The time of the last failed login.
    last_failed_at: parking_lot::Mutex<Option<Instant>>,
}

#[derive(Default, PartialEq, Eq)]
struct KnownAccounts {
    credentials: Vec<Credentials>,
    /// Roles by name; an account without one is an admin.
    roles: BTreeMap<String, AccountRole>,
}

/// Who sends a request to the admin port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminUser {
    /// The name of the account; `None` where no accounts are required.
    pub(crate) account: Option<Arc<str>>,
    pub(crate) role: AccountRole,
}

/// The accounts that admitted a request.
#[derive(Clone)]
pub(crate) struct AdmittedRequest {
    accounts: Accounts,
    known: Arc<KnownAccounts>,
}

impl AdmittedRequest {
    /// Whether the accounts are still the same, so that its client would be admitted again.
    pub(crate) fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.known, &self.accounts.0.known.load())
    }
}

/// The result of checking a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Admission {
    Admitted(AdminUser),
    Refused,
    /// [`WAITING_MAX`] is reached.
    Crowded,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Accounts({})", self.0.known.load().credentials.len())
    }
}

impl Accounts {
    pub(crate) fn new(
        accounts: &BTreeMap<String, Password>,
        roles: &BTreeMap<String, AccountRole>,
    ) -> Self {
        Self(Arc::new(AccountsInner {
            known: ArcSwap::from_pointee(known(accounts, roles)),
            waiting: Semaphore::new(WAITING_MAX),
            turn: Mutex::default(),
            last_failed_at: parking_lot::Mutex::default(),
        }))
    }

    /// Replaces all accounts, for all later logins. Requests that were admitted before are no longer
    /// [current](AdmittedRequest::is_current) if that changes anything.
    pub(crate) fn replace(
        &self,
        accounts: &BTreeMap<String, Password>,
        roles: &BTreeMap<String, AccountRole>,
    ) {
        let known = known(accounts, roles);
        if **self.0.known.load() != known {
            self.0.known.store(Arc::new(known));
        }
    }

    /// Checks the credentials of a request. Waits for [`FAILURE_DELAY`] after a failed login.
    async fn admit(&self, headers: &HeaderMap, peer: Option<Peer>) -> Admission {
        if self.0.known.load().credentials.is_empty() {
            return Admission::Admitted(AdminUser {
                account: None,
                role: AccountRole::Admin,
            });
        }
        let Some(presented) = basic_credentials(headers) else {
            return Admission::Refused;
        };
        let _waiting = {
            let mut last_failed_at = self.0.last_failed_at.lock();
            let waits = self.0.waiting.available_permits() < WAITING_MAX;
            // Logins that wait come first.
            if !waits && delay_end(*last_failed_at).is_none() {
                return self.check(&presented, peer.as_ref(), &mut last_failed_at);
            }
            match self.0.waiting.try_acquire() {
                Ok(permit) => permit,
                Err(_) => return Admission::Crowded,
            }
        };
        let _turn = self.0.turn.lock().await;
        loop {
            let end = {
                let mut last_failed_at = self.0.last_failed_at.lock();
                match delay_end(*last_failed_at) {
                    Some(end) => end,
                    None => return self.check(&presented, peer.as_ref(), &mut last_failed_at),
                }
            };
            sleep_until(end).await;
        }
    }

    fn check(
        &self,
        presented: &[u8],
        peer: Option<&Peer>,
        last_failed_at: &mut Option<Instant>,
    ) -> Admission {
        if self.is_known(presented)
            && let Some(name) = self.account_of(presented)
        {
            let role = self.0.known.load().roles.get(&name).copied();
            return Admission::Admitted(AdminUser {
                account: Some(name.into()),
                role: role.unwrap_or(AccountRole::Admin),
            });
        }
        *last_failed_at = Some(Instant::now());
        let account = self.account_of(presented);
        let account = account.as_deref().unwrap_or("unknown");
        let peer = peer.map(|peer| peer.address.to_string());
        let peer = peer.unwrap_or_default();
        tracing::warn!(peer, account, "failed login at the admin port");
        Admission::Refused
    }

    fn is_known(&self, presented: &[u8]) -> bool {
        // All accounts are compared, so that the time does not depend on which one matches.
        let mut is_known = false;
        for account in &self.0.known.load().credentials {
            // In constant time, so that the time reveals no part of a password.
            is_known |= bool::from(presented.ct_eq(account));
        }
        is_known
    }

    /// The name of a login, if there is an account of this name. Other names are not logged, as they may be passwords
    /// that were typed into the wrong field.
    fn account_of(&self, presented: &[u8]) -> Option<String> {
        let name = name_of(presented)?;
        let known = self.0.known.load();
        let is_account = known
            .credentials
            .iter()
            .any(|account| name_of(account) == Some(name));
        is_account.then(|| String::from_utf8_lossy(name).into_owned())
    }
}

/// The end of the delay after a failed login, if it is to come.
fn delay_end(last_failed_at: Option<Instant>) -> Option<Instant> {
    let end = last_failed_at? + FAILURE_DELAY;
    (end > Instant::now()).then_some(end)
}

fn name_of(credentials: &[u8]) -> Option<&[u8]> {
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    credentials.get(..colon)
}

fn known(
    accounts: &BTreeMap<String, Password>,
    roles: &BTreeMap<String, AccountRole>,
) -> KnownAccounts {
    let credentials = accounts.iter().map(|(name, password)| {
        let text = format!("{name}:{}", password.text());
        text.into_bytes().into_boxed_slice()
    });
    KnownAccounts {
        credentials: credentials.collect(),
        roles: roles.clone(),
    }
}

/// Middleware that requires the credentials of an account. Handlers get the [`AdminUser`] and the [`AdmittedRequest`] as
/// extensions.
pub(crate) async fn require_account(
    State(accounts): State<Accounts>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let peer = request.extensions().get::<Peer>().cloned();
    // Loaded first: if the accounts change while the login is checked, it counts as one of before.
    let known = accounts.0.known.load_full();
    match accounts.admit(request.headers(), peer).await {
        Admission::Admitted(user) => {
            let extensions = request.extensions_mut();
            extensions.insert(user);
            extensions.insert(AdmittedRequest { accounts, known });
            next.run(request).await
        }
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

/// Middleware behind [`require_account`] that requires the role of an admin.
pub(crate) async fn require_admin(
    Extension(user): Extension<AdminUser>,
    request: Request,
    next: Next,
) -> Response<Body> {
    match user.role {
        AccountRole::Admin => next.run(request).await,
        AccountRole::View | AccountRole::Operate => {
            (StatusCode::FORBIDDEN, NOT_ADMIN).into_response()
        }
    }
}

/// The credentials of a request; `None` if it has none that can be decoded.
fn basic_credentials(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    STANDARD.decode(credentials.trim()).ok()
}

#[cfg(test)]
mod tests;
