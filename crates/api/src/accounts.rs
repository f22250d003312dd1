//! The accounts of the admin port, for HTTP basic authentication, and their roles.
//!
//! Failed logins delay later ones of the same address and account: `throttle.rs`. A request without credentials is not
//! a login and is answered 401 at once.

mod throttle;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use tidegate_daemon::{LogLimit, Peer};

use self::throttle::{LoginSource, LoginThrottle, TooManyLogins};
use crate::config::{AccountRole, Password};

const CHALLENGE: &str = "Basic realm=\"Authorization Required\"";

/// How often a failed login is logged: thousands of addresses may try.
const LOG_INTERVAL: Duration = Duration::from_millis(100);

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
    throttle: LoginThrottle,
    log_limit: LogLimit,
    /// Number of failed logins since the last log line about one.
    unlogged: AtomicU64,
}

#[derive(Default, PartialEq, Eq)]
struct KnownAccounts {
    credentials: Vec<Credentials>,
    /// Roles by name; an account without a role is an admin.
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

/// Why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// It has no credentials of an account.
    Refused,
    /// Too many logins wait after failed ones.
    Crowded,
    /// Its account has another role than admin.
    NotAdmin,
}

impl IntoResponse for LoginError {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Refused => {
                let challenge = [(header::WWW_AUTHENTICATE, CHALLENGE)];
                (StatusCode::UNAUTHORIZED, challenge).into_response()
            }
            Self::Crowded => {
                let after = [(header::RETRY_AFTER, "1")];
                (StatusCode::TOO_MANY_REQUESTS, after, CROWDED).into_response()
            }
            Self::NotAdmin => (StatusCode::FORBIDDEN, NOT_ADMIN).into_response(),
        }
    }
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
            throttle: LoginThrottle::default(),
            log_limit: LogLimit::every(LOG_INTERVAL),
            unlogged: AtomicU64::new(0),
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

    /// Checks that a request comes from an admin.
    ///
    /// # Errors
    /// The request has no credentials of an admin, or too many logins wait.
    pub(crate) async fn admit_admin(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<(), LoginError> {
        let user = self.admit(headers, Some(peer.clone())).await?;
        user.require_admin()
    }

    /// Checks the credentials of a request. The throttle may let the check wait for checks of other requests.
    async fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<Peer>,
    ) -> Result<AdminUser, LoginError> {
        let known = self.0.known.load_full();
        if known.credentials.is_empty() {
            return Ok(AdminUser {
                account: None,
                role: AccountRole::Admin,
            });
        }
        let Some(presented) = basic_credentials(headers) else {
            return Err(LoginError::Refused);
        };
        let account = known.account_of(&presented);
        let address = peer.as_ref().map(|peer| peer.address.ip());
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let source = LoginSource::new(address, account.clone());
        let accounts = self.clone();
        let presented: Arc<[u8]> = presented.into();
        // The accounts may be replaced while the login waits.
        let check = move || accounts.0.known.load().user_of(&presented);
        match self.0.throttle.check(&source, check).await {
            Ok(Some(user)) => Ok(user),
            Ok(None) => {
                self.log_failure(account.as_deref(), peer.as_ref());
                Err(LoginError::Refused)
            }
            Err(TooManyLogins) => Err(LoginError::Crowded),
        }
    }

    /// `account` is `None` for the name of no account. Such names are not logged, as they may be passwords that were
    /// typed into the wrong field.
    fn log_failure(&self, account: Option<&str>, peer: Option<&Peer>) {
        if !self.0.log_limit.is_due() {
            self.0.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let account = account.unwrap_or("unknown");
        let peer = peer.map(|peer| peer.address.to_string());
        let peer = peer.unwrap_or_default();
        match self.0.unlogged.swap(0, Ordering::Relaxed) {
            0 => tracing::warn!(peer, account, "failed login at the admin port"),
            others => tracing::warn!(peer, account, others, "failed login at the admin port"),
        }
    }
}

impl AdminUser {
    fn require_admin(&self) -> Result<(), LoginError> {
        match self.role {
            AccountRole::Admin => Ok(()),
            AccountRole::View | AccountRole::Operate => Err(LoginError::NotAdmin),
        }
    }
}

impl KnownAccounts {
    /// The account with these credentials.
    fn user_of(&self, presented: &[u8]) -> Option<AdminUser> {
        // All accounts are compared, so that the time does not depend on which one matches.
        let mut is_known = false;
        for account in &self.credentials {
            // In constant time, so that the time reveals no part of a password.
            is_known |= bool::from(presented.ct_eq(account));
        }
        let name = self.account_of(presented).filter(|_| is_known)?;
        let role = self.roles.get(&name).copied();
        Some(AdminUser {
            account: Some(name.into()),
            role: role.unwrap_or(AccountRole::Admin),
        })
    }

    /// The name of a login, if there is an account of this name.
    fn account_of(&self, presented: &[u8]) -> Option<String> {
        let name = name_of(presented)?;
        let is_account = self
            .credentials
            .iter()
            .any(|account| name_of(account) == Some(name));
        is_account.then(|| String::from_utf8_lossy(name).into_owned())
    }
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

/// Middleware that requires the credentials of an account. Handlers get the [`AdminUser`] and the [`AdmittedRequest`]
/// as extensions.
pub(crate) async fn require_account(
    State(accounts): State<Accounts>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let peer = request.extensions().get::<Peer>().cloned();
    // Loaded first: if the accounts change while the login is checked, it counts as one of before.
    let known = accounts.0.known.load_full();
    match accounts.admit(request.headers(), peer).await {
        Ok(user) => {
            let extensions = request.extensions_mut();
            extensions.insert(user);
            extensions.insert(AdmittedRequest { accounts, known });
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

/// Middleware behind [`require_account`] that requires the role of an admin.
pub(crate) async fn require_admin(
    Extension(user): Extension<AdminUser>,
    request: Request,
    next: Next,
) -> Response<Body> {
    match user.require_admin() {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
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
