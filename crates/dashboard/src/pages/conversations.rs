//! Conversations: listed, searched and read.

use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use serde::Deserialize;
use vestal_api::dashboard::{ConversationsPageView, OfProfileView, TroubleView};
use vestal_api::{ConversationDetailsView, ConversationView, HitView};
use vestal_conversations::{ConversationFilter, SearchScope};

use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Conversations of a profile on a page.
const SHOWN: u32 = 50;

/// Messages of one conversation among what a search found.
const EACH: u32 = 3;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/conversations", list).needs(Right::Viewer),
        Route::get("/api/conversations/search", search).needs(Right::Viewer),
        Route::get("/api/conversations/{profile}/{id}", show).needs(Right::Viewer),
    ]
}

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    profile: Option<String>,
    /// Only those last used before this moment: where the page before ended.
    before: Option<String>,
    /// What is looked for.
    #[serde(default)]
    q: String,
}

async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ConversationsPageView<ConversationView>>, PageError> {
    let before = match query.before.as_deref().filter(|before| !before.is_empty()) {
        Some(before) => Some(
            before
                .parse::<Timestamp>()
                .map_err(|error| PageError::invalid(format!("before: {error}")))?,
        ),
        None => None,
    };
    let filter = ConversationFilter { before, limit: SHOWN, ..ConversationFilter::default() };
    let mut found = ConversationsPageView { conversations: Vec::new(), troubles: Vec::new() };
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        let of_one = async {
            let Some(store) = app.data.conversations(&profile).await? else {
                return Ok(Vec::new());
            };
            Ok::<_, PageError>(store.list(&filter).await?)
        };
        match of_one.await {
            Ok(listed) => found.conversations.extend(
                listed
                    .iter()
                    .map(|one| OfProfileView { profile: profile.to_string(), view: one.into() }),
            ),
            Err(error) => {
                found
                    .troubles
                    .push(TroubleView::new(format!("profile {profile}"), &error.detail()));
            }
        }
    }
    let used =
        |one: &OfProfileView<ConversationView>| std::cmp::Reverse(one.view.updated_at.clone());
    found.conversations.sort_by_key(used);
    found.conversations.truncate(SHOWN as usize);
    Ok(Json(found))
}

async fn search(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ConversationsPageView<HitView>>, PageError> {
    let scope = SearchScope { each: Some(EACH), ..SearchScope::default() };
    let mut found = ConversationsPageView { conversations: Vec::new(), troubles: Vec::new() };
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        let of_one = async {
            let Some(store) = app.data.conversations(&profile).await? else {
                return Ok(Vec::new());
            };
            Ok::<_, PageError>(store.search(&scope, &query.q, SHOWN).await?)
        };
        match of_one.await {
            Ok(hits) => found.conversations.extend(
                hits.iter()
                    .map(|hit| OfProfileView { profile: profile.to_string(), view: hit.into() }),
            ),
            Err(error) => {
                found
                    .troubles
                    .push(TroubleView::new(format!("profile {profile}"), &error.detail()));
            }
        }
    }
    Ok(Json(found))
}

async fn show(
    State(app): State<App>,
    Path((profile, id)): Path<(String, String)>,
) -> Result<Json<ConversationDetailsView>, PageError> {
    let home = app.data.profile(&profile)?;
    let absent = || PageError::not_found(format!("there is no conversation {id}"));
    let store = app.data.conversations(home.profile()).await?.ok_or_else(absent)?;
    let id = store.find(&id).await?;
    let conversation = (&store.summary(&id).await?).into();
    let (system_prompt, history) = (store.system_prompt(&id).await?, store.history(&id).await?);
    Ok(Json(ConversationDetailsView { conversation, system_prompt, history }))
}
