//! Chromium and its driver, from Debian's packages, and what a walk does with them.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use reqwest::Url;
use serde_json::{Value, json};
use tidegate_local_program::{ProgramProcess, free_port, workspace_cache};
use tidegate_testkit::{ToolPackage, eventually};
use tokio::sync::Semaphore;

use crate::webdriver::{Element, Locator, WebDriver};

const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a walk waits for what a page should show.
const SHOWN_LIMIT: Duration = Duration::from_secs(30);
/// Browsers that run at a time.
static BROWSERS: Semaphore = Semaphore::const_new(3);
/// The sessions of browsers that no walk uses. A browser takes as long to start as a walk lasts.
static IDLE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The program that starts browsers for all walks of this process, and ends with it.
struct ChromeDriver {
    url: String,
    browser: PathBuf,
    _process: ProgramProcess,
}

static DRIVER: LazyLock<ChromeDriver> = LazyLock::new(|| {
    let package = ToolPackage {
        package: "chromium-driver",
        probe: ("usr/bin/chromedriver", "--version"),
    };
    let folder = package.obtain();
    let port = free_port().expect("a free port");
    let mut command = folder.command("usr/bin/chromedriver");
    command.arg(format!("--port={port}"));
    let log = screenshots().join("chromedriver.log");
    let mut process = ProgramProcess::start(&mut command, &log).unwrap();
    let is_up = || {
        let connected = std::net::TcpStream::connect(("127.0.0.1", port));
        connected.map(drop).map_err(|error| error.to_string())
    };
    process.wait_until(START_LIMIT, is_up).unwrap();
    ChromeDriver {
        url: format!("http://127.0.0.1:{port}"),
        browser: folder.path("usr/lib/chromium/chromium"),
        _process: process,
    }
});

/// The folder for screenshots.
fn screenshots() -> PathBuf {
    let folder = workspace_cache("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How a browser is started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrowserOptions {
    pub(crate) without_script: bool,
}

/// A browser with one window.
pub(crate) struct Browser {
    driver: WebDriver,
    /// Where pages are.
    base: String,
}

/// Runs a walk in a browser that has no cookies, and keeps a screenshot of its end.
pub(crate) async fn walk(name: &str, base: &str, steps: impl AsyncFnOnce(&Browser)) {
    walk_with(BrowserOptions::default(), name, base, steps).await;
}

/// The same with options.
pub(crate) async fn walk_with(
    options: BrowserOptions,
    name: &str,
    base: &str,
    steps: impl AsyncFnOnce(&Browser),
) {
    let _turn = BROWSERS.acquire().await.unwrap();
    let browser = Browser::open(options, base).await;
    let walked = AssertUnwindSafe(steps(&browser)).catch_unwind().await;
    browser.screenshot(name).await;
    if options.without_script || walked.is_err() {
        browser.driver.quit().await.unwrap();
    } else {
        browser.set_aside().await;
    }
    if let Err(panic) = walked {
        resume_unwind(panic);
    }
}

fn pressable(text: &str) -> String {
    format!("//button[normalize-space()='{text}'] | //a[normalize-space()='{text}']")
}

impl Browser {
    async fn open(options: BrowserOptions, base: &str) -> Self {
        let driver = match options.without_script {
            true => None,
            false => IDLE.lock().unwrap().pop().map(WebDriver::of_session),
        };
        let driver = match driver {
            Some(idle) => idle,
            None => Self::start(options).await,
        };
        Self {
            driver,
            base: base.to_owned(),
        }
    }

    async fn start(options: BrowserOptions) -> WebDriver {
        let driver = tokio::task::spawn_blocking(|| &*DRIVER).await.unwrap();
        let mut chrome = json!({
            "binary": driver.browser,
            "args": [
                "--headless=new",
                // It ends with its driver.
                "--remote-debugging-pipe",
                // Tests may run as root, which Chromium's sandbox refuses; the pages are our own.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--window-size=1200,1000",
                "--lang=en",
            ],
        });
        if options.without_script {
            chrome["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
        }
        WebDriver::start(&driver.url, chrome).await.unwrap()
    }

    /// Leaves the browser to another walk, as if it had just been started.
    async fn set_aside(self) {
        self.driver.open("about:blank").await.unwrap();
        for (command, parameters) in [
            ("Network.clearBrowserCookies", json!({})),
            ("Emulation.clearDeviceMetricsOverride", json!({})),
            ("Emulation.setEmulatedMedia", json!({"features": []})),
        ] {
            self.command(command, parameters).await;
        }
        IDLE.lock().unwrap().push(self.driver.into_session());
    }

    /// Opens a page of the dashboard.
    pub(crate) async fn open_page(&self, path: &str) {
        let url = format!("{}{path}", self.base);
        self.driver.open(&url).await.unwrap();
    }

    /// Opens the page again.
    pub(crate) async fn reload(&self) {
        self.driver.reload().await.unwrap();
    }

    /// The path and query of the page.
    pub(crate) async fn address(&self) -> String {
        let url = Url::parse(&self.driver.url().await.unwrap()).unwrap();
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    pub(crate) async fn find(&self, css: &str) -> Element<'_> {
        let found = self.driver.find(Locator::Css(css)).await;
        found.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    /// The texts of all elements that match. They are read at once, since blocks are replaced.
    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll({})].map((it) => it.innerText)",
            json!(css)
        );
        let texts = self.run(&script).await;
        let texts = texts.as_array().unwrap().iter();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    }

    /// The text of all that is shown; empty while the next page is loaded.
    pub(crate) async fn text(&self) -> String {
        let text = async { self.driver.find(Locator::Css("body")).await?.text().await };
        text.await.unwrap_or_default()
    }

    /// Presses the button or the link with this text. A block may be replaced between the search and the click.
    pub(crate) async fn press(&self, text: &str) {
        let press = async || {
            let found = self.driver.find(Locator::XPath(&pressable(text))).await?;
            found.click().await
        };
        eventually(&format!("{text:?} is pressed"), SHOWN_LIMIT, press).await;
    }

    /// Whether there is a button or a link with this text.
    pub(crate) async fn offers(&self, text: &str) -> bool {
        let found = self.driver.find_all(Locator::XPath(&pressable(text))).await;
        !found.unwrap().is_empty()
    }

    /// Presses a key where the focus is: its name and its code.
    pub(crate) async fn key(&self, name: &str, code: u32) {
        let text = if name == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text});
            self.command("Input.dispatchKeyEvent", key).await;
        }
    }

    /// Types into the field of this name, instead of what it has.
    pub(crate) async fn fill(&self, name: &str, text: &str) {
        let field = self.find(&format!("input[name='{name}']")).await;
        field.fill(text).await.unwrap();
    }

    /// Chooses an option of the list of this name.
    pub(crate) async fn choose(&self, name: &str, value: &str) {
        let option = format!("select[name='{name}'] option[value='{value}']");
        self.find(&option).await.click().await.unwrap();
    }

    /// Waits until the page shows a text.
    pub(crate) async fn shows(&self, text: &str) {
        eventually(
            &format!("the page shows {text:?}"),
            SHOWN_LIMIT,
            async || {
                let shown = self.text().await;
                if shown.contains(text) {
                    Ok(())
                } else {
                    Err(shown)
                }
            },
        )
        .await;
    }

    /// Runs a script in the page, and returns what it returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        let ran = self.driver.run(script).await;
        ran.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Dark or light.
    pub(crate) async fn set_dark(&self, is_dark: bool) {
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// The screen of a phone.
    pub(crate) async fn set_phone(&self) {
        let screen = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
        self.command("Emulation.setDeviceMetricsOverride", screen)
            .await;
    }

    async fn command(&self, command: &str, parameters: Value) {
        let sent = self.driver.devtools(command, parameters);
        sent.await.unwrap();
    }

    /// Keeps a picture of the page.
    pub(crate) async fn screenshot(&self, name: &str) {
        let file = screenshots().join(format!("{name}.png"));
        let picture = self.driver.screenshot().await.unwrap();
        std::fs::write(file, picture).unwrap();
    }
}
