//! The commands of WebDriver (W3C) that walks use. Its libraries for Rust either have a licence that is not allowed
//! here, or switch on a feature of `serde_json` for the daemons under test.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

/// The name of an element in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser that is controlled by a driver.
pub(crate) struct WebDriver {
    http: reqwest::Client,
    /// The address of its session.
    session: String,
}

/// How elements are found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Locator<'a> {
    Css(&'a str),
    XPath(&'a str),
}

/// An element of the page. It becomes stale when the page changes.
pub(crate) struct Element<'a> {
    driver: &'a WebDriver,
    id: String,
}

impl WebDriver {
    /// Starts a browser with these options of Chromium.
    pub(crate) async fn start(driver: &str, chrome: Value) -> Result<Self, String> {
        let mut started = Self::of_session(format!("{driver}/session"));
        let wanted = json!({"alwaysMatch": {"goog:chromeOptions": chrome}});
        let session = started.post("", json!({"capabilities": wanted})).await?;
        let id = session["sessionId"].as_str().unwrap_or_default();
        started.session = format!("{}/{id}", started.session);
        Ok(started)
    }

    /// Controls a browser that runs, by the address of its session.
    pub(crate) fn of_session(session: String) -> Self {
        Self {
            http: reqwest::Client::new(),
            session,
        }
    }

    /// The address of the session.
    pub(crate) fn into_session(self) -> String {
        self.session
    }

    /// Ends the browser.
    pub(crate) async fn quit(&self) -> Result<(), String> {
        self.send(Method::DELETE, "", None).await.map(drop)
    }

    pub(crate) async fn open(&self, url: &str) -> Result<(), String> {
        self.post("/url", json!({"url": url})).await.map(drop)
    }

    pub(crate) async fn reload(&self) -> Result<(), String> {
        self.post("/refresh", json!({})).await.map(drop)
    }

    pub(crate) async fn url(&self) -> Result<String, String> {
        let url = self.send(Method::GET, "/url", None).await?;
        Ok(url.as_str().unwrap_or_default().to_owned())
    }

    /// The first element that matches.
    pub(crate) async fn find(&self, locator: Locator<'_>) -> Result<Element<'_>, String> {
        let all = self.find_all(locator).await?.into_iter();
        let first = all.into_iter().next();
        first.ok_or_else(|| format!("no element matches {locator:?}"))
    }

    pub(crate) async fn find_all(&self, locator: Locator<'_>) -> Result<Vec<Element<'_>>, String> {
        let (using, value) = match locator {
            Locator::Css(css) => ("css selector", css),
            Locator::XPath(path) => ("xpath", path),
        };
        let found = self.post("/elements", json!({"using": using, "value": value}));
        let found = found.await?;
        let ids = found.as_array().into_iter().flatten();
        let ids = ids.filter_map(|element| element[ELEMENT].as_str());
        Ok(ids
            .map(|id| Element {
                driver: self,
                id: id.to_owned(),
            })
            .collect())
    }

    /// Runs a script in the page, and returns what it returns, of a promise its value.
    pub(crate) async fn run(&self, script: &str) -> Result<Value, String> {
        let body = json!({"script": script, "args": []});
        self.post("/execute/sync", body).await
    }

    /// A command of Chromium's own protocol, which its driver passes on.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Result<(), String> {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", body).await.map(drop)
    }

    /// A picture of the page, as PNG.
    pub(crate) async fn screenshot(&self) -> Result<Vec<u8>, String> {
        let picture = self.send(Method::GET, "/screenshot", None).await?;
        let picture = BASE64_STANDARD.decode(picture.as_str().unwrap_or_default());
        picture.map_err(|error| error.to_string())
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, String> {
        let mut request = self.http.request(method, format!("{}{path}", self.session));
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = async { request.send().await?.text().await };
        let answer = answer.await.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let value = answer["value"].clone();
        match value["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }
}

impl Element<'_> {
    pub(crate) async fn click(&self) -> Result<(), String> {
        self.post("click", json!({})).await.map(drop)
    }

    /// Replaces what a field has.
    pub(crate) async fn fill(&self, text: &str) -> Result<(), String> {
        self.post("clear", json!({})).await?;
        self.post("value", json!({"text": text})).await.map(drop)
    }

    /// The text that is shown.
    pub(crate) async fn text(&self) -> Result<String, String> {
        let path = format!("/element/{}/text", self.id);
        let text = self.driver.send(Method::GET, &path, None).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    async fn post(&self, command: &str, body: Value) -> Result<Value, String> {
        let path = format!("/element/{}/{command}", self.id);
        self.driver.post(&path, body).await
    }
}
