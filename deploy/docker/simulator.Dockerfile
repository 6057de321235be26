# syntax=docker/dockerfile:1
# docker build -f deploy/docker/simulator.Dockerfile -t amity-lab .    (from the top of the repository)
# docker run --rm -v "$PWD:/work" --user "$(id -u)" amity-lab run peers=8
# TORCH_INDEX: an index with torch's CPU-only wheels, which are far smaller; without it, pip's own index.
FROM python:3.11-slim AS build
ARG TORCH_INDEX=""
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY constraints.txt ./
RUN python -m venv /opt/amity && /opt/amity/bin/pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/amity/bin/pip install '.[tables,privacy,live]'

FROM python:3.11-slim
RUN useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin amity \
    && install -d -o amity -g amity /work
COPY --from=build /opt/amity /opt/amity
ENV PATH=/opt/amity/bin:$PATH HOME=/tmp AMITY_DATA=/work/data PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /work
VOLUME /work
ENTRYPOINT ["amity"]
CMD ["--help"]
