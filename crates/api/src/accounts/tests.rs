use tokio::time::Instant;

use super::throttle::{FAILURE_DELAY, WAITING_OF_SOURCE_MAX};
use super::*;

fn accounts() -> Accounts {
    let password = |text: &str| Password::from(text.to_owned());
    let accounts = [("ops", "secret"), ("desk", "word")];
    let accounts = accounts.map(|(name, text)| (name.to_owned(), password(text)));
    let roles = BTreeMap::from([("desk".to_owned(), AccountRole::View)]);
    Accounts::new(&BTreeMap::from(accounts), &roles)
}

async fn admitted(accounts: &Accounts, value: &str) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, value.parse().unwrap());
    accounts.admit(&headers, None).await.is_ok()
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

#[tokio::test(start_paused = true)]
async fn missing_and_malformed_credentials_are_rejected() {
    let accounts = accounts();
    let before = Instant::now();
    let nothing = HeaderMap::new();
    assert_eq!(
        accounts.admit(&nothing, None).await,
        Err(LoginError::Refused)
    );
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
    assert_eq!(format!("{accounts:?}"), "Accounts(2)");
    accounts.replace(&BTreeMap::new(), &BTreeMap::new());
    let user = AdminUser {
        account: None,
        role: AccountRole::Admin,
    };
    assert_eq!(accounts.admit(&nothing, None).await, Ok(user));
}

#[tokio::test(start_paused = true)]
async fn an_account_has_its_role_and_is_an_admin_without_one() {
    let accounts = accounts();
    for (login, name, role) in [
        ("ops:secret", "ops", AccountRole::Admin),
        ("desk:word", "desk", AccountRole::View),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, basic(login).parse().unwrap());
        let user = AdminUser {
            account: Some(name.into()),
            role,
        };
        let admission = accounts.admit(&headers, None).await;
        assert_eq!(admission, Ok(user));
    }
}

/// The result of a login from `127.0.0.HOST`.
async fn login_from(
    accounts: &Accounts,
    host: u8,
    credentials: &str,
) -> Result<AdminUser, LoginError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, basic(credentials).parse().unwrap());
    let peer = Peer {
        address: ([127, 0, 0, host], 1234).into(),
    };
    accounts.admit(&headers, Some(peer)).await
}

#[tokio::test(start_paused = true)]
async fn a_failed_login_delays_the_next_of_its_address_and_account() {
    let accounts = accounts();
    let began_at = Instant::now();
    assert!(admitted(&accounts, &basic("ops:secret")).await);
    assert!(!admitted(&accounts, &basic("ops:wrong")).await);
    assert_eq!(began_at.elapsed(), Duration::ZERO);
    let nothing = HeaderMap::new();
    assert_eq!(
        accounts.admit(&nothing, None).await,
        Err(LoginError::Refused)
    );
    // Another account, another address, and the name of no account.
    assert!(admitted(&accounts, &basic("desk:word")).await);
    let elsewhere = login_from(&accounts, 2, "ops:secret").await;
    assert!(elsewhere.is_ok());
    assert!(!admitted(&accounts, &basic("nobody:x")).await);
    assert_eq!(began_at.elapsed(), Duration::ZERO);
    assert!(admitted(&accounts, &basic("ops:secret")).await);
    assert_eq!(began_at.elapsed(), FAILURE_DELAY);
    assert!(!admitted(&accounts, &basic("somebody:x")).await);
    assert!(!admitted(&accounts, &basic("nobody:x")).await);
    assert_eq!(began_at.elapsed(), 2 * FAILURE_DELAY);
}

/// Waiting logins are checked one by one, and a client that disconnects does not shorten the delay.
#[tokio::test(start_paused = true)]
async fn one_password_a_delay_is_tried_over_any_number_of_connections() {
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
    let tries: Vec<_> = (0..3 * WAITING_OF_SOURCE_MAX).map(try_one).collect();
    tokio::time::sleep(impatient).await;
    // While they wait, and the last of them are refused, others log in.
    let others = [(1, "desk:word"), (2, "ops:secret"), (3, "ops:secret")];
    for (host, credentials) in others {
        let admission = login_from(&accounts, host, credentials).await;
        assert!(admission.is_ok(), "{credentials}");
    }
    assert!(began_at.elapsed() < FAILURE_DELAY);
    let mut crowded = 0;
    for one in tries {
        crowded += usize::from(one.await.unwrap() == Err(LoginError::Crowded));
    }
    assert_eq!(crowded, 2 * WAITING_OF_SOURCE_MAX);
    let delays = u32::try_from(WAITING_OF_SOURCE_MAX).unwrap();
    assert_eq!(began_at.elapsed(), FAILURE_DELAY * delays);
}

/// Logins that arrive together are not checked beside each other: only the first is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_wrong_logins_has_one_free_check() {
    let accounts = accounts();
    let began_at = Instant::now();
    let tries = (0..64).map(|number| {
        let accounts = accounts.clone();
        tokio::spawn(async move { login_from(&accounts, 1, &format!("ops:{number}")).await })
    });
    let mut refused = 0;
    for one in tries.collect::<Vec<_>>() {
        refused += u32::from(one.await.unwrap() == Err(LoginError::Refused));
    }
    assert!(
        began_at.elapsed() >= FAILURE_DELAY * (refused - 1),
        "{refused}"
    );
}

/// Many requests at a time are normal: a page loads several files, and scripts run in parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn valid_logins_are_admitted_at_any_number_at_a_time() {
    let accounts = accounts();
    let admit = |_| {
        let accounts = accounts.clone();
        tokio::spawn(async move { admitted(&accounts, &basic("ops:secret")).await })
    };
    for login in (0..2000).map(admit).collect::<Vec<_>>() {
        assert!(login.await.unwrap());
    }
}

#[test]
fn only_names_of_accounts_are_logged() {
    let known = accounts().0.known.load_full();
    assert_eq!(known.account_of(b"ops:x").as_deref(), Some("ops"));
    assert_eq!(known.account_of(b"secret:x"), None);
    assert_eq!(known.account_of(b"secret"), None);
}
