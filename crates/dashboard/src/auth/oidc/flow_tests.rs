//! A provider of the test's own on loopback, which says what the test wants.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::super::People;
use super::super::testing::Signer;
use super::*;

type Asked = Vec<(String, String)>;

struct Answers {
    issuer: String,
    signer: Signer,
    /// Changes to the claims of the token.
    claims: Mutex<Value>,
    userinfo: Value,
    /// What the token endpoint was asked last.
    asked: Mutex<Asked>,
}

struct ScriptedProvider {
    answers: Arc<Answers>,
    serving: JoinHandle<()>,
    oidc: Oidc,
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

async fn token_answer(State(answers): State<Arc<Answers>>, body: String) -> Response {
    let read = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    let form: Asked =
        read.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let is_code = form.iter().any(|(name, value)| name == "code" && value == "right");
    *answers.asked.lock().unwrap() = form;
    if !is_code {
        let refusal = json!({ "error": "invalid_grant", "error_description": "the code is spent" });
        return (StatusCode::BAD_REQUEST, Json(refusal)).into_response();
    }
    let mut claims = json!({
        "iss": answers.issuer, "sub": "u1", "aud": "vestal", "exp": now() + 300, "iat": now(),
    });
    for (name, value) in answers.claims.lock().unwrap().as_object().unwrap() {
        claims[name] = value.clone();
    }
    let token = answers.signer.token(&claims);
    Json(json!({ "id_token": token, "access_token": "at", "token_type": "Bearer" })).into_response()
}

impl ScriptedProvider {
    async fn start(operators: &str, userinfo: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Answers {
            issuer: issuer.clone(),
            signer: Signer::new(),
            claims: Mutex::new(json!({})),
            userinfo,
            asked: Mutex::default(),
        });
        let metadata = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "userinfo_endpoint": format!("{issuer}/me"),
            "authorization_response_iss_parameter_supported": true,
        });
        let keys = answers.signer.keys();
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(async move || Json(metadata)))
            .route("/keys", get(async move || Json(keys)))
            .route("/token", post(token_answer))
            .route(
                "/me",
                get(async |State(answers): State<Arc<Answers>>| Json(answers.userinfo.clone())),
            )
            .with_state(Arc::clone(&answers));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let oidc = Oidc::new(OidcSettings {
            issuer: issuer.parse().unwrap(),
            client_id: "vestal".to_owned(),
            client_secret: None,
            scopes: "openid email".to_owned(),
            people: People::parse(operators, ""),
        });
        Self { answers, serving, oidc }
    }

    /// Begins a login; the token will have its nonce. Returns what the browser is asked to bring along.
    async fn begin(&self) -> (LoginRedirect, Callback) {
        let begun = self.oidc.begin("http://127.0.0.1:9119", "/board").await.unwrap();
        let address = reqwest::Url::parse(&begun.address).unwrap();
        let of = |name: &str| {
            address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        *self.answers.claims.lock().unwrap() = json!({ "nonce": of("nonce").unwrap() });
        let callback = Callback {
            state: of("state").unwrap(),
            code: Some("right".to_owned()),
            iss: Some(self.answers.issuer.clone()),
            ..Callback::default()
        };
        (begun, callback)
    }

    async fn finish(
        &self,
        begun: &LoginRedirect,
        callback: &Callback,
    ) -> Result<Arrived, OidcError> {
        self.oidc.finish(callback, Some(&begun.browser), now()).await
    }

    fn claim(&self, name: &str, value: Value) {
        self.answers.claims.lock().unwrap()[name] = value;
    }

    fn stop(self) {
        self.serving.abort();
    }
}

impl std::fmt::Debug for Arrived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Arrived").field(&self.principal).field(&self.next).finish()
    }
}

#[tokio::test]
async fn a_login_proves_by_its_verifier_that_the_code_is_its_own() {
    let provider = ScriptedProvider::start("u1", json!({})).await;
    let (begun, callback) = provider.begin().await;
    assert!(begun.address.contains("code_challenge_method=S256"), "{}", begun.address);
    let arrived = provider.finish(&begun, &callback).await.unwrap();
    let principal = Principal { name: "u1".to_owned(), right: Right::Operator, method: "oidc" };
    assert_eq!((arrived.principal, arrived.next.as_str()), (principal, "/board"));
    let asked = provider.answers.asked.lock().unwrap().clone();
    let of = |name: &str| asked.iter().find(|(key, _)| key == name).unwrap().1.clone();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
    assert!(begun.address.contains(&format!("code_challenge={challenge}&")), "{}", begun.address);
    assert_eq!(of("redirect_uri"), "http://127.0.0.1:9119/login/callback");
    provider.stop();
}

#[tokio::test]
async fn an_answer_counts_once_and_only_in_the_browser_that_asked() {
    let provider = ScriptedProvider::start("u1", json!({})).await;
    let unknown =
        |result: Result<Arrived, OidcError>| assert_eq!(result.unwrap_err(), OidcError::Unknown);
    let (begun, callback) = provider.begin().await;
    unknown(provider.oidc.finish(&callback, None, now()).await);
    unknown(provider.finish(&begun, &callback).await);
    let (begun, callback) = provider.begin().await;
    let other = Token::generate().unwrap();
    unknown(provider.oidc.finish(&callback, Some(&other), now()).await);
    unknown(provider.finish(&begun, &callback).await);
    let (begun, callback) = provider.begin().await;
    provider.finish(&begun, &callback).await.unwrap();
    unknown(provider.finish(&begun, &callback).await);
    let (begun, _) = provider.begin().await;
    unknown(provider.finish(&begun, &Callback::default()).await);
    provider.stop();
}

#[tokio::test]
async fn what_another_provider_says_and_what_is_for_another_login_lets_nobody_in() {
    let provider = ScriptedProvider::start("u1", json!({})).await;
    for (claim, value, expected) in [
        ("nonce", json!("of another login"), TokenError::Nonce),
        ("aud", json!("another"), TokenError::Audience),
        ("iss", json!("https://evil.example"), TokenError::Issuer("https://evil.example".into())),
        ("exp", json!(now() - 3600), TokenError::Expired),
    ] {
        let (begun, callback) = provider.begin().await;
        provider.claim(claim, value);
        let refused = provider.finish(&begun, &callback).await.unwrap_err();
        assert_eq!(refused, OidcError::Token(expected), "{claim}");
    }
    // Of which provider an answer is, is said by the answer itself.
    for iss in [Some("https://evil.example".to_owned()), None] {
        let (begun, callback) = provider.begin().await;
        let mixed = Callback { iss: iss.clone(), ..callback };
        let refused = provider.finish(&begun, &mixed).await.unwrap_err();
        let issuer = TokenError::Issuer(iss.unwrap_or_default());
        assert_eq!(refused, OidcError::Token(issuer));
    }
    provider.stop();
}

#[tokio::test]
async fn who_is_not_named_stays_outside_and_an_unverified_address_names_nobody() {
    let userinfo = json!({ "sub": "u1", "email": "ann@example.org", "email_verified": true });
    let provider = ScriptedProvider::start("ann@example.org", userinfo).await;
    let (begun, callback) = provider.begin().await;
    let arrived = provider.finish(&begun, &callback).await.unwrap();
    assert_eq!(arrived.principal.name, "ann@example.org", "the provider was asked for it");
    // What it says about somebody else is not this person's.
    let (begun, callback) = provider.begin().await;
    provider.claim("sub", json!("u2"));
    let stranger = OidcError::Stranger { name: "u2".to_owned() };
    assert_eq!(provider.finish(&begun, &callback).await.unwrap_err(), stranger);
    provider.stop();
    let userinfo = json!({ "sub": "u1", "email": "ann@example.org", "email_verified": false });
    let provider = ScriptedProvider::start("ann@example.org", userinfo).await;
    let (begun, callback) = provider.begin().await;
    let stranger = OidcError::Stranger { name: "u1".to_owned() };
    assert_eq!(provider.finish(&begun, &callback).await.unwrap_err(), stranger);
    provider.stop();
}

#[tokio::test]
async fn what_the_provider_says_against_it_is_reported_in_its_words() {
    let provider = ScriptedProvider::start("u1", json!({})).await;
    let (begun, callback) = provider.begin().await;
    let spent = Callback { code: Some("spent".to_owned()), ..callback };
    let refused = provider.finish(&begun, &spent).await.unwrap_err();
    assert_eq!(refused.to_string(), "the provider says invalid_grant: the code is spent");
    let (begun, callback) = provider.begin().await;
    let denied = Callback {
        error: Some("access_denied".to_owned()),
        error_description: Some("you said\u{7} no".to_owned()),
        ..callback
    };
    let refused = provider.finish(&begun, &denied).await.unwrap_err();
    assert_eq!(refused.to_string(), "the provider says access_denied: you said no");
    provider.stop();
    let gone = Oidc::new(OidcSettings {
        // Nobody listens on the port for nobody.
        issuer: "http://127.0.0.1:1".parse().unwrap(),
        client_id: "vestal".to_owned(),
        client_secret: None,
        scopes: "openid".to_owned(),
        people: People::default(),
    });
    let unusable = gone.begin("http://127.0.0.1:9119", "/").await.err().unwrap().to_string();
    assert!(unusable.starts_with("the provider http://127.0.0.1:1 cannot be used: "), "{unusable}");
}
