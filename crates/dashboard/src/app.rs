//! The server put together: gate, routes and what handlers share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vestal_config::{Environment, Home};
use vestal_operations::Runner;
use vestal_runtime::IdleMemory;

use crate::assets;
use crate::auth::{self, Audit, AuthStore, LoginState, Oidc, Tickets, audit_log_files};
use crate::data::{Data, ProgramHost};
use crate::events;
use crate::gate::{Gate, PeerPolicy, RouteEntry, Routes};
use crate::instance::{DashboardInstance, InstanceError};
use crate::pages::{self, Chats};
use crate::preview::{self, Previews};
use crate::samples::UsageSamples;
use crate::server;
use crate::settings::{DashboardSettings, SettingsError};
use crate::shell;
use crate::watch::Watch;

/// What handlers share. Cheap to clone.
pub(crate) type App = Arc<AppState>;

/// What handlers share.
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) gate: Arc<Gate>,
    pub(crate) login: LoginState,
    pub(crate) data: Data,
    pub(crate) chats: Chats,
    /// Long actions that pages began.
    pub(crate) actions: Runner,
    pub(crate) samples: UsageSamples,
    pub(crate) previews: Previews,
    pub(crate) watch: Watch,
    pub(crate) host: Arc<dyn ProgramHost>,
    /// Gives memory back while no page asks for anything.
    pub(crate) memory: IdleMemory,
    /// Ends streams: the server stops.
    pub(crate) stop: CancellationToken,
}

/// Why a dashboard was not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings do not allow it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Another process serves this home, or its files cannot be used.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The address cannot be listened on.
    #[error("listen on {address}: {source}{}", taken(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
}

fn taken(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; choose another with --port, or --port 0 for any that is free"
        }
        _ => "",
    }
}

/// A dashboard that listens, and serves once it is run.
#[derive(Debug)]
pub struct Dashboard {
    instance: DashboardInstance,
    listener: TcpListener,
    address: SocketAddr,
    url: String,
    app: App,
}

impl Dashboard {
    /// Becomes the dashboard of a home and listens. `home` is any of its profiles.
    #[boxed]
    pub async fn start(
        home: &Home,
        environment: Environment,
        settings: &DashboardSettings,
        host: Arc<dyn ProgramHost>,
    ) -> Result<Self, ServeError> {
        let root = home.sibling(vestal_config::ProfileName::default_profile());
        let instance = DashboardInstance::claim(&root.run_dir())?;
        pages::remove_left_files(&root.run_dir());
        let store = AuthStore::open(&auth::store_path(root.root())).await?;
        settings.check_provider(&store).await?;
        let wanted = SocketAddr::new(settings.host, settings.port);
        let failed = |source| ServeError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let url = settings.public_url.clone().unwrap_or_else(|| reachable(address));
        let public = settings.public_url.as_deref();
        let gate = Gate {
            peers: PeerPolicy::new(address, public, settings.proxies.clone()),
            store,
            tickets: Tickets::default(),
            audit: Audit::new(audit_log_files(&root.logs_dir())),
            proxy_header: settings.proxy_header.clone(),
            proxy_people: settings.proxy_people.clone(),
            oidc: settings.oidc.clone().map(Oidc::new),
            public_origin: settings.public_url.clone(),
            is_insecure: settings.is_insecure,
        };
        let app = Arc::new(AppState {
            gate: Arc::new(gate),
            login: LoginState::default(),
            watch: Watch::start(&root),
            data: Data::new(root, environment),
            chats: Chats::default(),
            actions: Runner::new("dashboard"),
            samples: UsageSamples::default(),
            previews: Previews::new(settings.preview_base.clone(), settings.public_url.clone()),
            host,
            memory: IdleMemory::start(|| false),
            stop: CancellationToken::new(),
        });
        // Last: who finds the file may ask for a link at once.
        instance.announce(address, &url, settings.is_insecure)?;
        Ok(Self { instance, listener, address, url, app })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where browsers find it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns its store, to make links.
    pub fn store(&self) -> &AuthStore {
        &self.app.gate.store
    }

    /// Returns every route with what it asks.
    pub fn routes(&self) -> Vec<RouteEntry> {
        routes(&self.app).entries().to_vec()
    }

    /// Serves until `stop`, then lets what was begun be answered.
    #[boxed]
    pub async fn serve(self, stop: CancellationToken) {
        let Self { instance, listener, app, .. } = self;
        // Streams have no end of their own.
        let streams = app.stop.clone();
        let router = router(&app);
        let policy = app.gate.peers.clone();
        let serving = tokio::spawn(server::serve(listener, policy, router, stop.clone()));
        stop.cancelled().await;
        streams.cancel();
        // Before the connections: its clients are told why they end.
        tokio::join!(app.chats.close(), app.actions.close());
        if let Err(error) = serving.await {
            tracing::error!(%error, "the dashboard ended");
        }
        app.watch.stop();
        app.data.close().await;
        app.gate.store.close().await;
        drop(instance);
    }
}

fn routes(app: &App) -> Routes<App> {
    Routes::new(Arc::clone(&app.gate))
        .routes(auth::routes())
        .routes(assets::routes())
        .routes(shell::routes())
        .routes(events::routes())
        .routes(pages::routes())
}

fn router(app: &App) -> Router {
    let behind_gate = routes(app).finish(Arc::clone(app), shell::not_found);
    // Previews have hosts of their own, at which nothing of the dashboard answers.
    behind_gate
        .layer(middleware::from_fn_with_state(Arc::clone(app), preview::divert))
        .layer(middleware::map_request_with_state(Arc::clone(app), use_memory))
}

/// A server that is asked needs what it had given back.
async fn use_memory(State(app): State<App>, request: Request) -> Request {
    app.memory.used();
    request
}

/// Returns an address that a browser on this machine can open.
fn reachable(address: SocketAddr) -> String {
    let ip = address.ip();
    let port = address.port();
    if ip.is_unspecified() {
        return format!("http://127.0.0.1:{port}");
    }
    format!("http://{address}")
}
