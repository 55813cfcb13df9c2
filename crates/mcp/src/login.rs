//! Logging in at servers that ask for it: OAuth 2.1 as the protocol has it, with discovery, dynamic
//! registration and PKCE.

mod callback;
mod store;

use std::future::Future;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession,
};
use vestal_config::Settings;

use crate::plan::ServerTarget;
use crate::server::ServerError;
use crate::settings::{LoginSettings, McpServer, McpServerName};
use callback::CallbackListener;

pub(crate) use store::TokenFile;

/// What we are called where we are registered.
const CLIENT: &str = "Vestal";

/// How long the steps before and after the person's may take.
const STEP: Duration = Duration::from_mins(1);

/// How long a person has.
const PATIENCE: Duration = Duration::from_mins(10);

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The settings have a reason.
    #[error("{0}")]
    Settings(String),
    /// The server wants no login, or none that is known here.
    #[error("{server} does not say where to log in ({reason})")]
    Unsupported {
        /// Its address.
        server: String,
        /// What it says instead.
        reason: String,
    },
    /// We are not known to whom the login is at, and cannot make ourselves known.
    #[error(
        "the login of {server} takes no new clients by itself ({reason}); register one there with the redirect address \
         http://127.0.0.1/callback and set mcp_servers.NAME.oauth.client_id"
    )]
    Registration {
        /// The server's address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The person or the login said no.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// It took too long.
    #[error("nobody logged in within {} minutes", PATIENCE.as_secs() / 60)]
    Late,
    /// Nobody is there to log in.
    #[error("the login was given up")]
    GivenUp,
    /// The tokens could not be kept.
    #[error("failed to keep the tokens: {0}")]
    Store(std::io::Error),
    /// Something failed on the way.
    #[error("{0}")]
    Failed(String),
}

/// A login that waits for a person.
pub struct PendingLogin {
    session: AuthorizationSession,
    listener: CallbackListener,
    server: String,
}

impl PendingLogin {
    /// Begins to log in at a server: finds out where, makes us known there, and waits at an address
    /// of this machine for the browser to come back.
    #[boxed]
    pub async fn begin(
        settings: &Settings,
        name: &McpServerName,
        server: &McpServer,
    ) -> Result<Self, LoginError> {
        let (url, login) = address(settings, name, server)?;
        let public = crate::web::public(&url);
        let listener = CallbackListener::bind(login.callback_port)
            .await
            .map_err(|error| LoginError::Failed(format!("no port for the answer: {error}")))?;
        let beginning = async {
            let mut manager = manager(&url).await?;
            manager.set_credential_store(TokenFile::new(&settings.home().dir(), name, &url));
            let found = manager.resolve_metadata().await?;
            if !found.source.is_discovered() {
                return Err(AuthError::NoAuthorizationSupport);
            }
            manager.set_metadata(found.metadata);
            let mut request = AuthorizationRequest::new(listener.redirect_uri())
                .with_client_name(CLIENT)
                .with_initial_scope_selection()
                .with_scopes(login.scopes.clone());
            if let Some(client) = &login.client_id {
                request = request.with_preregistered_client(client);
            }
            AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)
        };
        match tokio::time::timeout(STEP, beginning).await {
            Ok(Ok(session)) => Ok(Self { session, listener, server: public }),
            Ok(Err(error)) => Err(begin_failure(public, &error)),
            Err(_) => Err(LoginError::Failed(format!("{public} did not answer in time"))),
        }
    }

    /// Returns the address that the person opens in a browser.
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Waits until the browser comes back to this machine, or until `pasted` gives the address that
    /// it was sent to: on another machine it gets no answer there. Keeps the tokens.
    #[boxed]
    pub async fn finish(
        self,
        pasted: impl Future<Output = Option<String>> + Send + 'static,
    ) -> Result<(), LoginError> {
        let Self { session, listener, server } = self;
        let came_back = async {
            tokio::pin!(pasted);
            let mut is_pasting = true;
            let coming = listener.wait();
            tokio::pin!(coming);
            loop {
                tokio::select! {
                    back = &mut coming => return back,
                    text = &mut pasted, if is_pasting => match text {
                        Some(text) => return callback::read(text.trim()),
                        // Nothing more can be typed; the browser may still come.
                        None => is_pasting = false,
                    },
                }
            }
        };
        let back =
            tokio::time::timeout(PATIENCE, came_back).await.map_err(|_| LoginError::Late)??;
        let exchanging = session.handle_callback_url(&back);
        match tokio::time::timeout(STEP, exchanging).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(LoginError::Failed(format!(
                "the login of {server} was not completed: {}",
                plain(&error)
            ))),
            Err(_) => {
                Err(LoginError::Failed(format!("the login of {server} did not answer in time")))
            }
        }
    }
}

impl std::fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingLogin").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Forgets the tokens of a server. Reports whether there were any.
pub fn forget_login(settings: &Settings, name: &McpServerName) -> Result<bool, LoginError> {
    TokenFile::remove(&settings.home().dir(), name).map_err(LoginError::Store)
}

/// Reports whether tokens of a server are kept, whether they still count or not.
pub fn is_logged_in(settings: &Settings, name: &McpServerName) -> bool {
    TokenFile::exists(&settings.home().dir(), name)
}

/// Returns where a server is and how it is logged in at.
fn address(
    settings: &Settings,
    name: &McpServerName,
    server: &McpServer,
) -> Result<(String, LoginSettings), LoginError> {
    let plan = crate::plan::ServerPlan::new(settings, name.as_str(), server);
    match plan.target {
        Ok(ServerTarget::Address { url, login, .. }) => Ok((url, login.unwrap_or_default())),
        Ok(ServerTarget::Program { .. }) => Err(LoginError::Settings(format!(
            "{name} is a program on this machine; only servers with a url are logged in at"
        ))),
        Err(error) => Err(LoginError::Settings(error.to_string())),
    }
}

/// Returns what asks for tokens. Where a server's metadata leads must be as public as the server is.
async fn manager(url: &str) -> Result<AuthorizationManager, AuthError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another task may be first between the check and this; its result is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    if is_private(url).await {
        AuthorizationManager::new_allowing_private_addresses(url).await
    } else {
        AuthorizationManager::new(url).await
    }
}

/// Reports whether a server is in a network of one's own.
async fn is_private(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let Some(host) = url.host_str() else { return false };
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
    found.is_ok_and(|mut addresses| {
        addresses.any(|address| match address.ip().to_canonical() {
            std::net::IpAddr::V4(address) => address.is_private() || address.is_loopback(),
            std::net::IpAddr::V6(address) => address.is_unique_local() || address.is_loopback(),
        })
    })
}

/// Returns what adds tokens to requests, if somebody has logged in at a server.
pub(crate) async fn logged_in(
    file: &TokenFile,
    url: &str,
) -> Result<Option<AuthorizationManager>, ServerError> {
    if !file.is_there() {
        return Ok(None);
    }
    let failed = |error: AuthError| {
        ServerError::Failed(format!("its login cannot be used: {}", plain(&error)))
    };
    let mut manager = manager(url).await.map_err(failed)?;
    manager.set_credential_store(file.clone());
    match manager.initialize_from_store().await {
        Ok(true) => Ok(Some(manager)),
        // They are of another address, or of a login that has moved.
        Ok(false) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn begin_failure(server: String, error: &AuthError) -> LoginError {
    let reason = plain(error);
    match error {
        AuthError::RegistrationFailed(_) => LoginError::Registration { server, reason },
        AuthError::NoAuthorizationSupport | AuthError::MetadataError(_) => {
            LoginError::Unsupported { server, reason }
        }
        AuthError::PkceUnsupported => LoginError::Unsupported { server, reason },
        AuthError::CredentialStoreError(reason) => {
            LoginError::Store(std::io::Error::other(reason.clone()))
        }
        _ => LoginError::Failed(format!("the login of {server} cannot begin: {reason}")),
    }
}

/// Returns an error on one line.
fn plain(error: &AuthError) -> String {
    crate::tool::one_line(&error.to_string(), 500)
}
