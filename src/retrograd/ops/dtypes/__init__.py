"""Element types: conversion, promotion, limits, and what can be asked of them."""
