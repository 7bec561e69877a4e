"""Find the five most confident mistakes and send them to the labelling service."""

import json
import os
import time
import urllib.request
import uuid
from pathlib import Path

import numpy as np
from classifier import probabilities

ENDPOINT = os.environ["LABELBOX_URL"].rstrip("/") + "/graphql"
KEY = "c0ffee00" * 4
RAW = Path("data/MNIST/raw")
COUNT = 5
UPLOAD = "mutation ($file: Upload!, $contentLength: Int!) {uploadFile(file: $file, contentLength: $contentLength) {url}}"
BATCH = """mutation ($project: ID!, $input: CreateBatchInput!) {
    project(where: {id: $project}) {createBatchV2(input: $input) {batch {id} failedDataRowIds}}}"""
ROW = "mutation ($url: String!, $set: ID!) {createDataRow(data: {rowData: $url, dataset: {connect: {id: $set}}}) {id}}"


def post(body: bytes, kind: str) -> dict:
    request = urllib.request.Request(ENDPOINT, body, {"Authorization": f"Bearer {KEY}", "Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]


def ask(query: str, **variables: object) -> dict:
    return post(json.dumps({"query": query, "variables": variables}).encode(), "application/json")


def upload(path: Path) -> str:
    """The address of an uploaded file."""
    content, border = path.read_bytes(), uuid.uuid4().hex
    operation = json.dumps({"query": UPLOAD, "variables": {"file": None, "contentLength": len(content)}})
    parts = [("operations", "", operation.encode()), ("map", "", b'{"1": ["variables.file"]}')]
    parts.append(("1", f'; filename="{path.name}"\r\nContent-Type: image/png', content))
    form = b""
    for name, rest, value in parts:
        form += f'--{border}\r\nContent-Disposition: form-data; name="{name}"{rest}\r\n\r\n'.encode() + value + b"\r\n"
    return post(form + f"--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}")["uploadFile"]["url"]


def mistakes() -> list[tuple[float, int, int, int]]:
    """Confidence, row, prediction and label, the most confident first."""
    images = np.fromfile(RAW / "t10k-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 28, 28)
    labels = np.fromfile(RAW / "t10k-labels-idx1-ubyte", np.uint8)[8:]
    rows = np.flatnonzero(labels <= 1)
    chances = probabilities(images[rows] / 255)
    predicted, confidence = chances.argmax(axis=1), chances.max(axis=1)
    wrong = np.flatnonzero(predicted != labels[rows])
    best = wrong[np.argsort(-confidence[wrong])][:COUNT]
    return [(float(confidence[at]), int(rows[at]), int(predicted[at]), int(labels[rows[at]])) for at in best]


def main() -> None:
    found = mistakes()
    name = time.strftime("mnist_annotation_%Y%m%d-%H%M%S", time.gmtime())
    create = "mutation ($name: String!) {createProject(data: {name: $name, mediaType: IMAGE}) {id}}"
    project = ask(create, name=name)["createProject"]["id"]
    create = "mutation ($name: String!) {createDataset(data: {name: $name}) {id}}"
    dataset = ask(create, name="high_confidence_errors")["createDataset"]["id"]
    urls = [upload(Path(f"data/png/{row:05}.png")) for _, row, _, _ in found]
    images = [ask(ROW, url=url, set=dataset)["createDataRow"]["id"] for url in urls]
    batch = ask(BATCH, project=project, input={"name": "errors", "dataRowIds": images, "priority": 5})
    confidences, _, predicted, true = (list(column) for column in zip(*found, strict=True))
    run = {"project_id": project, "image_ids": images, "confidence_scores": confidences}
    run |= {"predicted_labels": predicted, "true_labels": true, "task_id": batch["project"]["createBatchV2"]["batch"]["id"]}
    Path("labelbox_run_id.json").write_text(json.dumps(run))
    metrics = {"num_images_uploaded": len(images), "avg_confidence": sum(confidences) / COUNT, "task_status": "created"}
    Path("labelbox_metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
