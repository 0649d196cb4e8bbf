"""Element types: conversion, promotion, numeric limits, and queries."""
