//! DeleteTopics (API 20), by name and by id. Knows nothing of files.

use logic::cluster::change::TopicName;
use wire::messages::DeleteTopicsRequestData;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponseData};
use wire::response::Response;
use wire::{ErrorCode, KafkaString, KafkaUuid};

use super::{Context, Handled, topics};
use crate::shard::controller::Change;

/// Answers one request.
pub async fn handle(context: &Context, request: DeleteTopicsRequestData) -> Handled {
    let by_name = |name: KafkaString| DeleteTopicState::default().with_name(Some(name));
    let mut asked = request.topics;
    asked.extend(request.topic_names.into_iter().map(by_name));
    let valid =
        |topic: &DeleteTopicState| topic.name.is_some() != (topic.topic_id != KafkaUuid::ZERO);
    let names = asked
        .iter()
        .filter(|topic| valid(topic))
        .map(|topic| match &topic.name {
            Some(name) => TopicName::Name(name.as_str().to_owned()),
            None => TopicName::Id(topics::topic_id(&topic.topic_id)),
        });
    let names: Vec<TopicName> = names.collect();
    // Named before they are gone: the answer says both name and id.
    let known: Vec<_> = asked
        .iter()
        .map(|topic| {
            let image = context.shard.metadata.image();
            let found = match &topic.name {
                Some(name) => image.topic_by_name(name.as_str()),
                None => image.topic(topics::topic_id(&topic.topic_id)),
            };
            found.map(|topic| (topic.name.clone(), topic.id))
        })
        .collect();
    let mut outcomes = topics::change(context, Change::DeleteTopics(names))
        .await
        .into_iter();
    let results = asked.into_iter().zip(known).map(|(topic, known)| {
        if !valid(&topic) {
            let message = "a topic is deleted by its name or by its id, not by both or neither";
            return DeletableTopicResult::default()
                .with_name(topic.name)
                .with_topic_id(topic.topic_id)
                .with_error_code(ErrorCode::InvalidRequest.code())
                .with_error_message(Some(KafkaString::from_static(message)));
        }
        let outcome = outcomes
            .next()
            .expect("each topic that was asked for has an outcome");
        let (code, message) = topics::told(&outcome);
        let result = DeletableTopicResult::default()
            .with_error_code(code)
            .with_error_message(message);
        match known {
            Some((name, id)) => result
                .with_name(Some(KafkaString::from(name)))
                .with_topic_id(topics::uuid(id)),
            None => result.with_name(topic.name).with_topic_id(topic.topic_id),
        }
    });
    let response = DeleteTopicsResponseData::default().with_responses(results.collect());
    context.reply(&Response::DeleteTopics(response))
}
